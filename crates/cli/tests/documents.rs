//! The documentation shows what the program prints.

/// The help of each command. `TRYCMD=overwrite` writes the page anew.
#[test]
fn the_page_of_commands_is_up_to_date() {
    trycmd::TestCases::new()
        .env("COLUMNS", "100")
        .register_bin("flsched", std::path::Path::new(env!("CARGO_BIN_EXE_flsched")))
        .case("../../docs/reference/commands.md");
}
