//! The files of a log: the current one, the rotated ones beside it, and who may write there.
//!
//! Not here: what stands in them.

use std::{
    ffi::OsString,
    fs::{self, DirBuilder, File},
    io,
    os::unix::fs::{DirBuilderExt, FileExt, MetadataExt},
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use rustix::{
    fs::{FlockOperation, Mode, OFlags, flock, open},
    io::Errno,
    process::geteuid,
};

/// How long somebody else may hold the log.
const LOCK_PATIENCE: Duration = Duration::from_secs(5);
/// How often the file may be rotated under our hands, before something is wrong.
pub(crate) const MOST_ROTATIONS: usize = 64;
/// Most rotated files that are looked for.
const MOST_FILES: u32 = 1000;

/// Others than the owner may write.
const WRITABLE_BY_OTHERS: u32 = 0o022;
/// Only the owner of a file may replace it in such a folder.
const STICKY: u32 = 0o1000;

/// The log cannot be opened as one that only its owner writes.
#[derive(Debug, thiserror::Error)]
pub enum FilesError {
    /// Its folder cannot be made.
    #[error("making the folder `{}`", path.display())]
    MakeFolder {
        /// The folder.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It cannot be opened, or asked what it is.
    #[error("opening `{}`", path.display())]
    Open {
        /// The file or its folder.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Something else stands there.
    #[error("`{}` is not a regular file", .0.display())]
    NotAFile(PathBuf),
    /// It is somebody else's.
    #[error("`{}` belongs to another user (uid {uid})", path.display())]
    Foreign {
        /// The file or its folder.
        path: PathBuf,
        /// Whose it is.
        uid: u32,
    },
    /// Others could alter it.
    #[error("others may write to `{}`", .0.display())]
    WritableByOthers(PathBuf),
    /// It is held, or rotated again and again.
    #[error("another process keeps holding `{}`", .0.display())]
    Held(PathBuf),
    /// It cannot be locked.
    #[error("locking `{}`", path.display())]
    Lock {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It cannot be moved aside for a new one.
    #[error("rotating `{}`", path.display())]
    Rotate {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

impl FilesError {
    /// The next step for the owner; `or` is what else they may do.
    pub(crate) fn hint(&self, or: &str) -> String {
        match self {
            Self::WritableByOthers(path) => {
                format!("`chmod go-w {}`, or name another place by `audit.path`", path.display())
            }
            Self::Held(path) => format!("`fuser {}` says who holds it", path.display()),
            _ => format!("name a file that you may write by `audit.path`, {or}"),
        }
    }
}

/// Which file it is, whatever its name.
pub(crate) type FileId = (u64, u64);

/// The current file, open for its owner alone.
#[derive(Debug)]
pub(crate) struct LogFile {
    pub(crate) file: File,
    pub(crate) id: FileId,
}

/// The only right to write; ends when dropped.
#[derive(Debug)]
pub(crate) struct Locked<'a>(&'a File);

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        // Closing it would do as well, unless a child that is being started holds a copy.
        let _ = flock(self.0, FlockOperation::Unlock);
    }
}

impl LogFile {
    /// Opens the file, or makes it and its folder.
    ///
    /// # Errors
    /// [`FilesError`], also when others than its owner could alter it.
    pub(crate) fn open(path: &Path) -> Result<Self, FilesError> {
        let unopened = |source: Errno| match source {
            // What O_NOFOLLOW answers to a link.
            Errno::LOOP => FilesError::NotAFile(path.to_owned()),
            source => FilesError::Open { path: path.to_owned(), source: source.into() },
        };
        check_folder(path)?;
        let flags = OFlags::RDWR
            | OFlags::APPEND
            | OFlags::CREATE
            | OFlags::NOFOLLOW
            | OFlags::CLOEXEC
            // A FIFO in its place must not hold us up; regular files do not care.
            | OFlags::NONBLOCK;
        let file: File = open(path, flags, Mode::RUSR | Mode::WUSR).map_err(unopened)?.into();
        let metadata =
            file.metadata().map_err(|source| FilesError::Open { path: path.to_owned(), source })?;
        if !metadata.is_file() {
            return Err(FilesError::NotAFile(path.to_owned()));
        }
        check_owner(path, &metadata, false)?;
        let id = (metadata.dev(), metadata.ino());
        Ok(Self { file, id })
    }

    /// Takes the right to write. `None` when another file has come in this one's place meanwhile.
    ///
    /// # Errors
    /// [`FilesError`] when another process does not let go.
    pub(crate) fn lock(&self, path: &Path) -> Result<Option<Locked<'_>>, FilesError> {
        let locked = wait_for_lock(&self.file, FlockOperation::NonBlockingLockExclusive, path)?;
        let there = fs::symlink_metadata(path).ok().map(|there| (there.dev(), there.ino()));
        Ok((there == Some(self.id)).then_some(locked))
    }
}

#[expect(clippy::disallowed_methods, reason = "flock waits for ever or not at all")]
fn wait_for_lock<'a>(
    file: &'a File,
    operation: FlockOperation,
    path: &Path,
) -> Result<Locked<'a>, FilesError> {
    let deadline = Instant::now() + LOCK_PATIENCE;
    let mut pause = Duration::from_micros(100);
    loop {
        match flock(file, operation) {
            Ok(()) => return Ok(Locked(file)),
            Err(Errno::WOULDBLOCK) if Instant::now() < deadline => thread::sleep(pause),
            Err(Errno::WOULDBLOCK) => return Err(FilesError::Held(path.to_owned())),
            Err(Errno::INTR) => {}
            Err(source) => {
                return Err(FilesError::Lock { path: path.to_owned(), source: source.into() });
            }
        }
        pause = Duration::from_millis(10).min(pause * 2);
    }
}

fn check_folder(path: &Path) -> Result<(), FilesError> {
    let folder = path.parent().unwrap_or(Path::new("/"));
    let made = DirBuilder::new().recursive(true).mode(0o700).create(folder);
    made.map_err(|source| FilesError::MakeFolder { path: folder.to_owned(), source })?;
    let metadata = fs::metadata(folder)
        .map_err(|source| FilesError::Open { path: folder.to_owned(), source })?;
    check_owner(folder, &metadata, true)
}

fn check_owner(path: &Path, metadata: &fs::Metadata, folder: bool) -> Result<(), FilesError> {
    let uid = metadata.uid();
    // What root may do it does anyway.
    if uid != geteuid().as_raw() && !(folder && uid == 0) {
        return Err(FilesError::Foreign { path: path.to_owned(), uid });
    }
    let sticky = folder && metadata.mode() & STICKY != 0;
    if metadata.mode() & WRITABLE_BY_OTHERS != 0 && !sticky {
        return Err(FilesError::WritableByOthers(path.to_owned()));
    }
    Ok(())
}

/// Name of the rotated file: 1 is the newest.
pub(crate) fn rotated(path: &Path, number: u32) -> PathBuf {
    let mut name: OsString = path.as_os_str().to_owned();
    name.push(format!(".{number}"));
    name.into()
}

/// Moves the current file to `.1`, the others one further, and removes what is over `keep`.
/// Whoever calls this holds the lock of the current one.
///
/// # Errors
/// [`FilesError::Rotate`]; the current file is then still where it was.
pub(crate) fn rotate(path: &Path, keep: u32) -> Result<(), FilesError> {
    let failed = |source| FilesError::Rotate { path: path.to_owned(), source };
    let keep = keep.clamp(1, MOST_FILES);
    let is_there = |number: &u32| fs::symlink_metadata(rotated(path, *number)).is_ok();
    // Down to the first gap, everything must make room; an interrupted rotation leaves one.
    let last = (1..=keep).take_while(is_there).last().unwrap_or(0);
    for number in (1..=last).rev() {
        let file = rotated(path, number);
        if number == keep {
            fs::remove_file(&file).map_err(failed)?;
        } else {
            fs::rename(&file, rotated(path, number + 1)).map_err(failed)?;
        }
    }
    // A lower `keep` than before leaves older ones, which nobody would ever remove.
    for number in (keep + 1..=MOST_FILES).take_while(is_there) {
        fs::remove_file(rotated(path, number)).map_err(failed)?;
    }
    fs::rename(path, rotated(path, 1)).map_err(failed)
}

/// The files of the log that are there, opened for reading, the oldest first. What is written to them
/// later is not part of the answer: each comes with the size that it had at one and the same moment.
///
/// # Errors
/// [`FilesError`] when one that is there cannot be opened, or none is.
pub fn open_all(path: &Path) -> Result<Vec<LogPart>, FilesError> {
    for _ in 0..MOST_ROTATIONS {
        let current = match LogPart::open(path) {
            Ok(current) => Some(current),
            Err(FilesError::Open { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                None
            }
            Err(error) => return Err(error),
        };
        // While this is held, nobody writes or rotates.
        let _locked = match &current {
            Some(part) => {
                let shared = FlockOperation::NonBlockingLockShared;
                let locked = wait_for_lock(&part.file, shared, path)?;
                let there = fs::symlink_metadata(path).map(|there| there.ino()).ok();
                if there != part.file.metadata().map(|own| own.ino()).ok() {
                    continue;
                }
                Some(locked)
            }
            None => None,
        };
        let mut parts = Vec::new();
        for number in (1..=MOST_FILES).rev() {
            let name = rotated(path, number);
            if fs::symlink_metadata(&name).is_ok() {
                parts.push(LogPart::open(&name)?);
            }
        }
        if let Some(part) = &current {
            parts.push(part.again()?);
        }
        if parts.is_empty() {
            let source = io::Error::from(io::ErrorKind::NotFound);
            return Err(FilesError::Open { path: path.to_owned(), source });
        }
        return Ok(parts);
    }
    Err(FilesError::Held(path.to_owned()))
}

/// One file of a log, as long as it was when it was opened.
#[derive(Debug)]
pub struct LogPart {
    path: PathBuf,
    file: File,
    size: u64,
}

impl LogPart {
    /// Opens one file for reading.
    ///
    /// # Errors
    /// [`FilesError`] when it cannot be, or is not a regular file.
    pub fn open(path: &Path) -> Result<Self, FilesError> {
        let unopened = |source: io::Error| FilesError::Open { path: path.to_owned(), source };
        // A link is followed: reading does no harm. A FIFO must not hold us up.
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let file: File =
            open(path, flags, Mode::empty()).map_err(|errno| unopened(errno.into()))?.into();
        let metadata = file.metadata().map_err(unopened)?;
        if !metadata.is_file() {
            return Err(FilesError::NotAFile(path.to_owned()));
        }
        Ok(Self { path: path.to_owned(), file, size: metadata.len() })
    }

    /// How long it was when it was opened.
    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// The same file with the size that it has now.
    pub(crate) fn again(&self) -> Result<Self, FilesError> {
        let failed = |source| FilesError::Open { path: self.path.clone(), source };
        let file = self.file.try_clone().map_err(failed)?;
        let size = file.metadata().map_err(failed)?.len();
        Ok(Self { path: self.path.clone(), file, size })
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Which file it is, whatever its name.
    pub fn is_same_file(&self, other: &Self) -> bool {
        let id = |part: &Self| part.file.metadata().map(|own| (own.dev(), own.ino())).ok();
        id(self) == id(other)
    }

    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    /// Reads at that place. 0 at the end of what belongs to it.
    pub(crate) fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let left = usize::try_from(self.size.saturating_sub(offset)).unwrap_or(usize::MAX);
        let length = left.min(buffer.len());
        self.file.read_at(&mut buffer[..length], offset)
    }
}
