# Daily shortcuts; demo.sh and test.sh are the real entrances.
.PHONY: build test units lint format demo clean
build:
	cargo build --release
test:
	./test.sh
units:
	./test.sh units
lint:
	cargo fmt --all --check
	cargo clippy --release --workspace --all-targets -- -D warnings
format:
	cargo fmt --all
	clang-format-19 -i policies/*.[ch] crates/compare/openmp/*.[ch]
demo:
	./demo.sh
clean:
	cargo clean
