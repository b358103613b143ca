# Daily shortcuts; demo.sh and test.sh are the real entrances.
# Whatever the user has set: what is built here is used from here.
export CARGO_TARGET_DIR = $(CURDIR)/target
.PHONY: build aarch64 test units lint format demo site packages install uninstall clean
build:
	cargo build --release --locked -p flsched --features top,manual
	target/release/flsched-manual target/manual
# For virtual machines with that processor: target/aarch64-unknown-linux-gnu/release/flsched.
aarch64:
	./dist/cross.sh build --release -p flsched
test:
	./test.sh
units:
	./test.sh units
lint:
	cargo fmt --all --check
	cargo clippy --release --workspace --all-targets --features flsched/top -- -D warnings
format:
	cargo fmt --all
	clang-format-19 -i policies/*.[ch] crates/compare/openmp/*.[ch]
demo:
	./demo.sh
# The documentation and all results, as pages for a browser.
site:
	cargo run --release --locked -p flsched-lab -- site target/site
packages:
	./dist/package.sh
clean:
	cargo clean

# make build && make install DESTDIR=… PREFIX=/usr: for packages of systems that have none here, and from source.
PREFIX = /usr/local
BINDIR = $(PREFIX)/bin
LIBDIR = $(PREFIX)/lib
DATADIR = $(PREFIX)/share
SYSCONFDIR = /etc
MANDIR = $(DATADIR)/man
DOCDIR = $(DATADIR)/doc/flsched
UNITDIR = $(LIBDIR)/systemd/system
SLURMDIR = $(LIBDIR)/flsched/slurm
BASHDIR = $(DATADIR)/bash-completion/completions
ZSHDIR = $(DATADIR)/zsh/site-functions
FISHDIR = $(DATADIR)/fish/vendor_completions.d
INSTALL = install
PROGRAM = target/release/flsched

DOCUMENTS = README.md LICENSE docs policies machines dist/grafana

# What is not built is found missing before the first file is installed. Nothing is enabled or started, and settings that
# are there already stay.
install:
	@for built in $(PROGRAM) target/manual/man/flsched.1; do \
		test -f $$built || { echo "make install: $$built is missing; run this first: make build" >&2; exit 1; }; done
	install -D -m 755 $(PROGRAM) "$(DESTDIR)$(BINDIR)/flsched"
	install -D -m 644 -t "$(DESTDIR)$(MANDIR)/man1" target/manual/man/*.1
	install -D -m 644 target/manual/completions/flsched.bash "$(DESTDIR)$(BASHDIR)/flsched"
	install -D -m 644 target/manual/completions/_flsched "$(DESTDIR)$(ZSHDIR)/_flsched"
	install -D -m 644 target/manual/completions/flsched.fish "$(DESTDIR)$(FISHDIR)/flsched.fish"
	install -d "$(DESTDIR)$(UNITDIR)"
	for unit in flsched.service flsched@.service; do \
		sed 's|/usr/bin/flsched|$(BINDIR)/flsched|; s|/etc/default|$(SYSCONFDIR)/default|' dist/systemd/$$unit | \
		install -m 644 /dev/stdin "$(DESTDIR)$(UNITDIR)/$$unit" || exit 1; done
	install -d "$(DESTDIR)$(SLURMDIR)"
	for script in dist/slurm/*; do \
		sed 's|/usr/bin/flsched|$(BINDIR)/flsched|; s|/etc/default|$(SYSCONFDIR)/default|' $$script | \
		install -m 755 /dev/stdin "$(DESTDIR)$(SLURMDIR)/$${script##*/}" || exit 1; done
	chmod 644 "$(DESTDIR)$(SLURMDIR)/common.sh"
	test -e "$(DESTDIR)$(SYSCONFDIR)/default/flsched" || \
		install -D -m 644 dist/default/flsched "$(DESTDIR)$(SYSCONFDIR)/default/flsched"
	find $(DOCUMENTS) -type f -exec install -D -m 644 {} "$(DESTDIR)$(DOCDIR)/{}" \;

# Of the settings, only what was never changed. A service that runs is stopped by: systemctl disable --now flsched
uninstall:
	rm -f "$(DESTDIR)$(BINDIR)/flsched" "$(DESTDIR)$(MANDIR)"/man1/flsched.1 "$(DESTDIR)$(MANDIR)"/man1/flsched-*.1
	rm -f "$(DESTDIR)$(BASHDIR)/flsched" "$(DESTDIR)$(ZSHDIR)/_flsched" "$(DESTDIR)$(FISHDIR)/flsched.fish"
	rm -f "$(DESTDIR)$(UNITDIR)/flsched.service" "$(DESTDIR)$(UNITDIR)/flsched@.service"
	rm -f $(foreach script,$(notdir $(wildcard dist/slurm/*)),"$(DESTDIR)$(SLURMDIR)/$(script)")
	rmdir "$(DESTDIR)$(SLURMDIR)" "$(DESTDIR)$(LIBDIR)/flsched" 2>/dev/null || true
	! cmp -s dist/default/flsched "$(DESTDIR)$(SYSCONFDIR)/default/flsched" || \
		rm "$(DESTDIR)$(SYSCONFDIR)/default/flsched"
	find $(DOCUMENTS) -type f -exec rm -f "$(DESTDIR)$(DOCDIR)/{}" \;
	test ! -d "$(DESTDIR)$(DOCDIR)" || find "$(DESTDIR)$(DOCDIR)" -depth -type d -empty -delete
