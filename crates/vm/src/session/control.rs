//! The host's end of the control port.
use crate::protocol::{self, HostMessage};
use std::os::unix::net::UnixStream;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Limit for a write. A guest that does not read its messages for this long hangs, which the monitor detects.
const WRITE_LIMIT: Duration = Duration::from_secs(2);

/// Sends messages to process 1 from any thread.
#[derive(Debug)]
pub(super) struct Control(Mutex<UnixStream>);

impl Control {
    pub fn new(socket: UnixStream) -> std::io::Result<Self> {
        socket.set_write_timeout(Some(WRITE_LIMIT))?;
        Ok(Self(Mutex::new(socket)))
    }

    /// Sends a message. If that fails, the guest is gone, which the monitor detects by other means.
    pub fn send(&self, message: HostMessage) {
        let socket = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = protocol::send(&*socket, &message);
    }
}
