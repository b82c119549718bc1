//! Appending to the log: one writer at a time, each record chained to the one before it, whoever
//! wrote that.
//!
//! The lock is held for one record, and what the chain goes on from is read from the file, so any
//! number of processes may write one log. A record is not flushed to the disk one by one: it survives
//! the end of this process however it comes, and a crash of the machine as well as the file system
//! keeps the last seconds of any file.

use std::{
    fs::File,
    io::{self, Write},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    time::SystemTime,
};

use rustix::{
    fs::{FallocateFlags, fallocate},
    io::Errno,
};

use super::{
    files::{FileId, FilesError, Locked, LogFile, LogPart, MOST_ROTATIONS, rotate, rotated},
    hash::Hash,
    record::{Event, Line, MOST_LINE_BYTES, Place, Record},
    settings::{AuditSettings, OnError},
};

/// How much of the end of a file is looked at: a torn line, and a whole one before it.
const TAIL_BYTES: u64 = 2 * (MOST_LINE_BYTES as u64 + 1);

/// How much room there must be when a call begins: for its end, and those of others under way.
const RESERVED_BYTES: u64 = 64 * 1024;

/// What every record begins with.
const BEGINNING: &[u8] = b"{\"seq\":";

/// A record was not written.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The file cannot be used.
    #[error(transparent)]
    Files(#[from] FilesError),
    /// What stands there was not written by us, so nothing is added to it.
    #[error("`{}` does not end with an audit record", .0.display())]
    NotALog(PathBuf),
    /// Its end cannot be read.
    #[error("reading the end of `{}`", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The record cannot be added, for example because the disk is full.
    #[error("writing to `{}`", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The record cannot be put down as a line.
    #[error("encoding a record")]
    Encode(#[source] serde_json::Error),
    /// The numbers have come to their end.
    #[error("`{}` holds the last number that there is", .0.display())]
    LastNumber(PathBuf),
}

/// The end of the chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    /// Number of the last record; 0 before the first.
    pub(crate) seq: u64,
    /// Its own hash.
    pub(crate) hash: Hash,
    /// Hash of its line, which the next record names.
    line_hash: Hash,
}

const NOTHING: Head = Head { seq: 0, hash: Hash::NOTHING, line_hash: Hash::NOTHING };

/// The log, for one writer among several.
#[derive(Debug)]
pub(crate) struct Store {
    settings: AuditSettings,
    held: Option<LogFile>,
    /// The last record that this process wrote, and where the file then ended.
    own: Option<(Head, FileId, u64)>,
}

/// What the end of a file is.
#[derive(Debug, PartialEq)]
enum Tail {
    Empty,
    /// It ends with this record, and with its newline unless only that is lacking.
    Record(Head, Newline),
    /// It ends with a part of a record, so many bytes with that hash, after that record if any.
    Torn(Option<Head>, Hash, u64),
    /// It ends with something else.
    Foreign,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Newline {
    There,
    Lacking,
}

/// What came of a try.
enum Tried {
    Written(Head),
    Rotated,
}

impl Store {
    /// A log that is not opened yet.
    pub(crate) fn new(settings: AuditSettings) -> Self {
        Self { settings, held: None, own: None }
    }

    /// Makes sure that records can be added, as far as that can be told without adding one.
    ///
    /// # Errors
    /// [`StoreError`].
    pub(crate) fn check(&mut self) -> Result<(), StoreError> {
        let log = LogFile::open(&self.settings.path)?;
        match tail(&log.file, &self.settings.path)? {
            Tail::Foreign => Err(StoreError::NotALog(self.settings.path.clone())),
            Tail::Empty | Tail::Record(..) | Tail::Torn(..) => Ok(()),
        }
    }

    /// Adds one record. The answer is the new end of the chain.
    ///
    /// # Errors
    /// [`StoreError`]; the file is then as it was.
    pub(crate) fn append(&mut self, event: &Event, time: SystemTime) -> Result<Head, StoreError> {
        for _ in 0..MOST_ROTATIONS {
            let log = match self.held.take() {
                Some(log) => log,
                None => LogFile::open(&self.settings.path)?,
            };
            // Another file has come in its place: the next round opens that.
            let Some(locked) = log.lock(&self.settings.path)? else { continue };
            let tried = self.append_locked(&log, &locked, event, time)?;
            drop(locked);
            if let Tried::Written(head) = tried {
                self.held = Some(log);
                return Ok(head);
            }
        }
        Err(FilesError::Held(self.settings.path.clone()).into())
    }

    /// Sees to it that what was written is on the disk.
    pub(crate) fn flush(&self) -> io::Result<()> {
        self.held.as_ref().map_or(Ok(()), |log| log.file.sync_data())
    }

    fn append_locked(
        &mut self,
        log: &LogFile,
        _locked: &Locked<'_>,
        event: &Event,
        time: SystemTime,
    ) -> Result<Tried, StoreError> {
        let path = self.settings.path.as_path();
        let size = size(&log.file, path)?;
        let before = match self.own {
            Some((head, id, then)) if id == log.id && then == size => head,
            _ => self.go_on_from(log, time)?,
        };
        let line = line(event, before, time, path)?;
        let size = self::size(&log.file, path)?;
        if size > 0 && size + line.bytes.len() as u64 > self.settings.rotate_bytes {
            // What is moved aside is done with; a crash of the machine shall not take it.
            let _ = log.file.sync_data();
            rotate(path, self.settings.keep)?;
            return Ok(Tried::Rotated);
        }
        if matches!(event, Event::Begin(_)) && self.settings.on_error == OnError::Refuse {
            reserve(&log.file, size, path)?;
        }
        add(&log.file, &line.bytes, size, path)?;
        let head = Head { seq: before.seq + 1, hash: line.hash, line_hash: line.line_hash };
        self.own = Some((head, log.id, size + line.bytes.len() as u64));
        Ok(Tried::Written(head))
    }

    /// The record that the next one follows, once the file ends with a whole line.
    fn go_on_from(&self, log: &LogFile, time: SystemTime) -> Result<Head, StoreError> {
        let path = self.settings.path.as_path();
        let size = size(&log.file, path)?;
        let found = match tail(&log.file, path)? {
            Tail::Foreign => return Err(StoreError::NotALog(path.to_owned())),
            Tail::Record(head, Newline::There) => head,
            Tail::Record(head, Newline::Lacking) => {
                add(&log.file, b"\n", size, path)?;
                head
            }
            Tail::Empty => previous(path)?,
            Tail::Torn(head, torn, torn_bytes) => {
                let before = match head {
                    Some(head) => head,
                    None => previous(path)?,
                };
                // What is torn stays as it is: it may be all that is left of a call.
                tracing::warn!(torn_bytes, "the audit log ended with a torn line");
                let before = Head { line_hash: torn, ..before };
                let line = line(&Event::Recovered { torn_bytes }, before, time, path)?;
                add(&log.file, &[b"\n", line.bytes.as_slice()].concat(), size, path)?;
                Head { seq: before.seq + 1, hash: line.hash, line_hash: line.line_hash }
            }
        };
        Ok(match self.own {
            // Going on from what is there would hide it.
            Some((own, ..)) if own.seq >= found.seq && own != found => {
                tracing::error!(
                    own = own.seq,
                    found = found.seq,
                    "the audit log was altered while this process wrote it: see `cofferdam audit verify`"
                );
                own
            }
            _ => found,
        })
    }
}

/// The last record of the newest rotated file.
fn previous(path: &Path) -> Result<Head, StoreError> {
    let path = rotated(path, 1);
    match LogPart::open(&path) {
        Ok(part) => match tail(part.file(), &path)? {
            Tail::Record(head, _) | Tail::Torn(Some(head), ..) => Ok(head),
            Tail::Empty | Tail::Torn(None, ..) | Tail::Foreign => Err(StoreError::NotALog(path)),
        },
        Err(FilesError::Open { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
            Ok(NOTHING)
        }
        Err(error) => Err(error.into()),
    }
}

fn line(event: &Event, before: Head, time: SystemTime, path: &Path) -> Result<Line, StoreError> {
    let seq = before.seq.checked_add(1).ok_or_else(|| StoreError::LastNumber(path.to_owned()))?;
    event.line(Place { seq, prev: before.line_hash, time }).map_err(StoreError::Encode)
}

fn size(file: &File, path: &Path) -> Result<u64, StoreError> {
    let read = |source| StoreError::Read { path: path.to_owned(), source };
    Ok(file.metadata().map_err(read)?.len())
}

/// Sees to it that what is begun can be ended in the log, too: code that fills the disk must not keep
/// its own end from being recorded.
fn reserve(file: &File, size: u64, path: &Path) -> Result<(), StoreError> {
    match fallocate(file, FallocateFlags::KEEP_SIZE, size, RESERVED_BYTES) {
        Err(error @ (Errno::NOSPC | Errno::DQUOT)) => {
            Err(StoreError::Write { path: path.to_owned(), source: error.into() })
        }
        // Not every file system can.
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Adds all of it or nothing.
fn add(mut file: &File, bytes: &[u8], size: u64, path: &Path) -> Result<(), StoreError> {
    file.write_all(bytes).map_err(|source| {
        // A part of it may be there. When it cannot be taken back, it is found to be torn.
        let _ = file.set_len(size);
        StoreError::Write { path: path.to_owned(), source }
    })
}

fn tail(file: &File, path: &Path) -> Result<Tail, StoreError> {
    let read = |source| StoreError::Read { path: path.to_owned(), source };
    let size = size(file, path)?;
    let start = size.saturating_sub(TAIL_BYTES);
    let mut bytes = vec![0; (size - start) as usize];
    file.read_exact_at(&mut bytes, start).map_err(read)?;
    Ok(tail_of(&bytes, start == 0))
}

/// What the last bytes of a file are; `whole` when they are all of it.
fn tail_of(bytes: &[u8], whole: bool) -> Tail {
    if bytes.is_empty() {
        return Tail::Empty;
    }
    let mut lines = bytes.rsplit(|byte| *byte == b'\n');
    let after_newline = lines.next().unwrap_or_default();
    let head = |line: &[u8]| Record::read(line).map(|record| Head::of(&record));
    if after_newline.is_empty() {
        return match lines.next().and_then(head) {
            Some(head) => Tail::Record(head, Newline::There),
            None => Tail::Foreign,
        };
    }
    if let Some(head) = head(after_newline) {
        return Tail::Record(head, Newline::Lacking);
    }
    let before = lines.next();
    let begins = BEGINNING.starts_with(after_newline) || after_newline.starts_with(BEGINNING);
    match (before, before.and_then(head)) {
        (Some(_), None) => Tail::Foreign,
        // Only what can have been the beginning of a log is taken for it.
        (None, None) if !(whole && begins) => Tail::Foreign,
        (_, head) => Tail::Torn(head, Hash::of(after_newline), after_newline.len() as u64),
    }
}

impl Head {
    fn of(record: &Record) -> Self {
        Self { seq: record.seq, hash: record.hash, line_hash: record.line_hash }
    }
}
