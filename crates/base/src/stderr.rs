//! Messages on standard error. The macros replace std's of the same names, which panic when the reader has gone, as after
//! `2>&1 | head`: a message that nobody reads ends neither a command nor the scheduling.

/// As std's, without its panic.
#[macro_export]
macro_rules! eprint {
    ($($message:tt)*) => {{
        let _ = ::std::io::Write::write_fmt(&mut ::std::io::stderr(), ::std::format_args!($($message)*));
    }};
}

/// As std's, without its panic.
#[macro_export]
macro_rules! eprintln {
    ($($message:tt)*) => {
        $crate::eprint!("{}\n", ::std::format_args!($($message)*))
    };
}
