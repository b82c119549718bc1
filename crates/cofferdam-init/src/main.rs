//! The first program inside every sandbox.
//!
//! Single-threaded and static. It reads its order, finishes the mounts, forks, and in the child
//! gives up every right before it becomes the command; the parent stays as process 1, reaps, ends
//! everything and reports. It decides nothing: what to do is in the order, and any step that fails
//! ends the sandbox before the command starts.

mod carve;
mod child;
mod files;
mod hold;
mod namespaces;
mod reaper;
mod socket;
mod sys;

use std::{os::fd::OwnedFd, process::exit};

use cofferdam_init::{CONTROL_FD, Failed, HOLD_USER_NAMESPACE, ORDER_FD, Order, Record};

/// A step of the way that failed.
#[derive(Debug)]
pub(crate) struct Stop {
    step: String,
    errno: i32,
}

impl Stop {
    /// A check that did not hold.
    pub(crate) fn check(step: impl Into<String>) -> Self {
        Self { step: step.into(), errno: 0 }
    }
}

/// Names the step in which a system call failed.
pub(crate) trait During<T> {
    fn during(self, step: &str) -> Result<T, Stop>;
}

impl<T> During<T> for rustix::io::Result<T> {
    fn during(self, step: &str) -> Result<T, Stop> {
        self.map_err(|errno| Stop { step: step.to_owned(), errno: errno.raw_os_error() })
    }
}

impl<T> During<T> for std::io::Result<T> {
    fn during(self, step: &str) -> Result<T, Stop> {
        self.map_err(|error| Stop {
            step: step.to_owned(),
            errno: error.raw_os_error().unwrap_or_default(),
        })
    }
}

/// Exit status when the sandbox could not be finished. Nobody reads it as the command's: that one
/// is in [`Record::Ended`].
const EXIT_SETUP: i32 = 125;

fn main() {
    if std::env::args().nth(1).as_deref() == Some(HOLD_USER_NAMESPACE) {
        exit(hold::user_namespace());
    }
    let control = sys::inherited(CONTROL_FD);
    match run(&control) {
        Ok(never) => match never {},
        Err(stop) => {
            let record = Record::Failed(Failed { step: stop.step, errno: stop.errno });
            socket::send(&control, &record);
            exit(EXIT_SETUP);
        }
    }
}

fn run(control: &OwnedFd) -> Result<std::convert::Infallible, Stop> {
    let order: Order = files::read_order(sys::inherited(ORDER_FD))?;
    namespaces::prove_own(control, &order)?;
    files::finish(control, &order)?;
    let proc = namespaces::writable_proc()?;
    let reaper = reaper::Reaper::prepare()?;
    match sys::fork().during("fork")? {
        sys::Fork::Child => {
            let stop = match child::become_command(control, &order, &proc) {
                Ok(never) => match never {},
                Err(stop) => stop,
            };
            socket::send(control, &Record::Failed(Failed { step: stop.step, errno: stop.errno }));
            exit(EXIT_SETUP);
        }
        sys::Fork::Parent(main) => reaper.stay(control, main),
    }
}
