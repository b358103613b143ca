//! Messages on standard error. They replace std's macros of the same names, which panic when the reader has gone,
//! as after `2>&1 | head`: a message that nobody reads ends neither a command nor the scheduling.

macro_rules! eprint {
    ($($message:tt)*) => {{
        let _ = ::std::io::Write::write_fmt(&mut ::std::io::stderr(), ::std::format_args!($($message)*));
    }};
}

macro_rules! eprintln {
    ($($message:tt)*) => {
        eprint!("{}\n", ::std::format_args!($($message)*))
    };
}
