//! Reading a log: line by line, verified, followed. Nothing that stands in it is believed.

use std::{
    io::{self, BufRead, BufReader, Read},
    path::{Path, PathBuf},
};

use super::{
    chain::{Fault, LinePlace, Summary, Verifier},
    files::{FilesError, LogPart},
    hash::Hash,
    record::{MOST_LINE_BYTES, Record},
};

/// One line as it stands in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawLine {
    /// Without its newline; of a line that is longer than any record, only the beginning.
    pub bytes: Vec<u8>,
    /// Whether it ended with a newline.
    pub complete: bool,
}

impl RawLine {
    /// The record that it is, if it is one.
    pub fn record(&self) -> Option<Record> {
        Record::read(&self.bytes).filter(|_| self.complete)
    }
}

/// The lines of one file, in order. Takes no more memory than one of them.
#[derive(Debug)]
pub struct Lines<'a> {
    reader: BufReader<PartReader<'a>>,
}

#[derive(Debug)]
struct PartReader<'a> {
    part: &'a LogPart,
    offset: u64,
}

impl Read for PartReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.part.read_at(buffer, self.offset)?;
        self.offset += length as u64;
        Ok(length)
    }
}

impl LogPart {
    /// Its lines.
    pub fn lines(&self) -> Lines<'_> {
        self.lines_from(0)
    }

    fn lines_from(&self, offset: u64) -> Lines<'_> {
        Lines { reader: BufReader::with_capacity(64 * 1024, PartReader { part: self, offset }) }
    }
}

impl Iterator for Lines<'_> {
    type Item = io::Result<RawLine>;

    fn next(&mut self) -> Option<Self::Item> {
        self.read_line().transpose()
    }
}

impl Lines<'_> {
    fn read_line(&mut self) -> io::Result<Option<RawLine>> {
        let mut line = RawLine { bytes: Vec::new(), complete: false };
        let mut any = false;
        while !line.complete {
            let buffer = self.reader.fill_buf()?;
            if buffer.is_empty() {
                return Ok(any.then_some(line));
            }
            any = true;
            let end = buffer.iter().position(|byte| *byte == b'\n');
            let content = &buffer[..end.unwrap_or(buffer.len())];
            // One byte more than any record has: enough to see that it is none.
            let room = (MOST_LINE_BYTES + 1).saturating_sub(line.bytes.len());
            line.bytes.extend_from_slice(&content[..room.min(content.len())]);
            let used = content.len() + usize::from(end.is_some());
            line.complete = end.is_some();
            self.reader.consume(used);
        }
        Ok(Some(line))
    }
}

/// Whether these files, the oldest first, are one unbroken chain. With `expected`, one of the records
/// must have that hash.
///
/// # Errors
/// When a file cannot be read. The inner result is the first fault that was found.
pub fn verify(parts: &[LogPart], expected: Option<Hash>) -> io::Result<Result<Summary, Fault>> {
    let mut verifier = Verifier::new(expected);
    for (file, part) in parts.iter().enumerate() {
        for (number, line) in (1..).zip(part.lines()) {
            let line = line?;
            verifier.line(LinePlace { file, line: number }, &line.bytes, line.complete);
        }
    }
    Ok(verifier.finish())
}

/// What is added to a log from now on.
#[derive(Debug)]
pub struct Follower {
    path: PathBuf,
    part: Option<LogPart>,
    offset: u64,
}

impl Follower {
    /// After what `parts`, a log that was opened whole, holds. A log that is not there yet is followed
    /// from its beginning.
    pub fn after(path: &Path, parts: Vec<LogPart>) -> Self {
        let part = parts.into_iter().next_back().filter(|part| part.path() == path);
        let offset = part.as_ref().map_or(0, LogPart::size);
        Self { path: path.to_owned(), part, offset }
    }

    /// The whole lines that have come since, also over one rotation.
    ///
    /// # Errors
    /// [`FilesError`] when the log cannot be opened or read.
    pub fn news(&mut self) -> Result<Vec<RawLine>, FilesError> {
        let mut news = Vec::new();
        let current = match LogPart::open(&self.path) {
            Ok(part) => part,
            // Between the two steps of a rotation.
            Err(FilesError::Open { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                return Ok(news);
            }
            Err(error) => return Err(error),
        };
        if let Some(part) = self.part.take()
            && !part.is_same_file(&current)
        {
            // Nobody adds to the old one any more.
            self.take(&part.again()?, &mut news)?;
            self.offset = 0;
        }
        self.take(&current, &mut news)?;
        self.part = Some(current);
        Ok(news)
    }

    fn take(&mut self, part: &LogPart, news: &mut Vec<RawLine>) -> Result<(), FilesError> {
        for line in part.lines_from(self.offset) {
            let line =
                line.map_err(|source| FilesError::Open { path: self.path.clone(), source })?;
            if !line.complete {
                break;
            }
            // A line that was cut is no record, and then the offset is wrong until the next rotation.
            self.offset += line.bytes.len() as u64 + 1;
            news.push(line);
        }
        Ok(())
    }
}
