//! What this program reports to the service manager that has started it (sd_notify(3)). Without one, that is without
//! NOTIFY_SOCKET in the environment, nothing happens.
use sd_notify::NotifyState::{self, Ready, Status, Stopping};

/// The service has started; `status` is one line for people.
pub fn ready(status: &str) {
    notify(&[Ready, Status(status)]);
}

/// What the service does now, in one line for people.
pub fn status(status: &str) {
    notify(&[Status(status)]);
}

pub fn stopping() {
    notify(&[Stopping]);
}

fn notify(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        eprintln!("warning: the service manager cannot be reached through NOTIFY_SOCKET: {error}");
    }
}
