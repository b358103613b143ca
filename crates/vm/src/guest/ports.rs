//! The virtio-serial ports, by name.
use crate::protocol::CONTROL_PORT;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

/// How often to try, because the driver creates the ports in the background, shortly after it finds the device.
const TRIES: u32 = 500;
const PAUSE: Duration = Duration::from_millis(10);

/// Opens the control port.
pub fn open_control() -> io::Result<File> {
    let port = open(CONTROL_PORT)?;
    wait_for_host(&port)?;
    Ok(port)
}

/// Opens the port of that name.
pub fn open(name: &str) -> io::Result<File> {
    for _ in 0..TRIES {
        if let Some(device) = find(name) {
            return OpenOptions::new().read(true).write(true).open(device);
        }
        sleep(PAUSE);
    }
    Err(io::Error::new(io::ErrorKind::NotFound, format!("the VM has no virtio port `{name}`")))
}

/// Waits until the port is marked as connected to the host. A read before that would return the end of the stream.
/// The host is always connected, but the port gets this state later than its name.
pub fn wait_for_host(port: &File) -> io::Result<()> {
    for _ in 0..TRIES {
        let mut events = [PollFd::new(port.as_fd(), PollFlags::POLLIN)];
        poll(&mut events, PollTimeout::ZERO)?;
        if !events[0].revents().is_some_and(|events| events.contains(PollFlags::POLLHUP)) {
            break;
        }
        sleep(PAUSE);
    }
    Ok(())
}

fn find(name: &str) -> Option<PathBuf> {
    fs::read_dir("/sys/class/virtio-ports").ok()?.flatten().find_map(|port| {
        let found = fs::read_to_string(port.path().join("name")).ok()?;
        (found.trim_end() == name).then(|| Path::new("/dev").join(port.file_name()))
    })
}
