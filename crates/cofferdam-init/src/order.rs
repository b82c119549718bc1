//! The order: everything that the first program inside a sandbox needs to know.
//!
//! Encoded as records of a key, a 32-bit little-endian length and that many bytes. Bytes survive:
//! paths, arguments and sources need not be UTF-8 and may hold any byte.

use std::{
    ffi::{OsStr, OsString},
    os::unix::ffi::{OsStrExt, OsStringExt},
};

/// What to do inside a sandbox.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Order {
    /// The command and its arguments. A name without a slash is looked up in the `PATH` of
    /// `environment`.
    pub arguments: Vec<OsString>,
    /// The whole environment of the command, as `NAME=value`.
    pub environment: Vec<OsString>,
    /// Where the command starts.
    pub working_directory: OsString,
    /// Device and inode of the directory that it must be, if it must be a certain one.
    pub working_directory_identity: Option<(u64, u64)>,
    /// Who the command is.
    pub identity: Identity,
    /// Files to write before the root becomes read-only. Existing ones are left alone.
    pub files: Vec<File>,
    /// Directories that are given to the command's user.
    pub owned: Vec<OsString>,
    /// Detached mounts to attach.
    pub attach: Vec<Mount>,
    /// Mounts that must be what the launcher opened.
    pub expect: Vec<Mount>,
    /// Places inside granted folders to fix or to take away, folders before what is in them.
    pub carve: Vec<Carve>,
    /// Filter programs, in the order of installation: arrays of `sock_filter`.
    pub filters: Vec<Vec<u8>>,
    /// Most open descriptors per process; 0 leaves the limit alone.
    pub open_files: u64,
    /// Largest file in bytes; 0 leaves the limit alone.
    pub file_size: u64,
    /// Give the command a terminal: rows, columns, and which of the streams 0 to 2 it is.
    pub terminal: Option<Terminal>,
    /// Inode numbers of the launcher's namespaces, by their names in `/proc/self/ns`.
    pub outside_namespaces: Vec<(String, u64)>,
}

/// Who the command is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// User and group that the command sees itself as. Never 0.
    pub user: u32,
    /// See `user`.
    pub group: u32,
    /// User and group to become in the sandbox's outer user namespace first.
    pub outer_user: u32,
    /// See `outer_user`.
    pub outer_group: u32,
}

/// A file to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// Absolute path.
    pub path: OsString,
    /// What it holds.
    pub content: Vec<u8>,
}

/// A mount to attach or to check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// Absolute path inside.
    pub path: OsString,
    /// Descriptor of the detached mount; unused when only checking.
    pub descriptor: i32,
    /// Device of what must be there.
    pub device: u64,
    /// Inode of what must be there.
    pub inode: u64,
}

/// A place inside a granted folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Carve {
    /// What is done with it.
    pub kind: CarveKind,
    /// Absolute path of the granted folder inside.
    pub root: OsString,
    /// The place, relative to it.
    pub path: OsString,
    /// Device of what must be there.
    pub device: u64,
    /// Inode of what must be there.
    pub inode: u64,
}

/// What is done with a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CarveKind {
    /// A folder that must keep its name: it can be used as before, but neither moved nor removed.
    Pin,
    /// Can be read, not changed, moved or removed.
    Protect,
    /// A file that can be neither read nor changed.
    DenyFile,
    /// A folder that can be neither read nor changed.
    DenyFolder,
}

impl CarveKind {
    const ALL: [Self; 4] = [Self::Pin, Self::Protect, Self::DenyFile, Self::DenyFolder];
}

/// A terminal to give to the command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Terminal {
    /// Lines.
    pub rows: u16,
    /// Characters a line.
    pub columns: u16,
    /// Standard output is the terminal.
    pub stdout: bool,
    /// Standard error is the terminal.
    pub stderr: bool,
}

/// The bytes are not an order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecodeError {
    /// What was expected and is not there.
    pub expected: &'static str,
}

impl std::fmt::Display for DecodeError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "malformed order: expected {}", self.expected)
    }
}

impl std::error::Error for DecodeError {}

const fn malformed(expected: &'static str) -> DecodeError {
    DecodeError { expected }
}

impl Order {
    /// The order as bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for argument in &self.arguments {
            put(&mut out, b'a', &[argument.as_bytes()]);
        }
        for variable in &self.environment {
            put(&mut out, b'e', &[variable.as_bytes()]);
        }
        put(&mut out, b'w', &[self.working_directory.as_bytes()]);
        if let Some((device, inode)) = self.working_directory_identity {
            put(&mut out, b'd', &[&numbers(&[device, inode])]);
        }
        let Identity { user, group, outer_user, outer_group } = self.identity;
        put(&mut out, b'i', &[&numbers(&[user, group, outer_user, outer_group].map(u64::from))]);
        for file in &self.files {
            put(&mut out, b'f', &[file.path.as_bytes(), b"\0", &file.content]);
        }
        for path in &self.owned {
            put(&mut out, b'o', &[path.as_bytes()]);
        }
        for (key, mounts) in [(b'm', &self.attach), (b'x', &self.expect)] {
            for mount in mounts {
                let facts = numbers(&[mount.descriptor as u64, mount.device, mount.inode]);
                put(&mut out, key, &[&facts, mount.path.as_bytes()]);
            }
        }
        for Carve { kind, root, path, device, inode } in &self.carve {
            let facts = numbers(&[*kind as u64, *device, *inode]);
            put(&mut out, b'c', &[&facts, root.as_bytes(), b"\0", path.as_bytes()]);
        }
        for filter in &self.filters {
            put(&mut out, b's', &[filter]);
        }
        put(&mut out, b'l', &[&numbers(&[self.open_files, self.file_size])]);
        if let Some(terminal) = self.terminal {
            let Terminal { rows, columns, stdout, stderr } = terminal;
            let facts = [u64::from(rows), u64::from(columns), stdout.into(), stderr.into()];
            put(&mut out, b't', &[&numbers(&facts)]);
        }
        for (name, inode) in &self.outside_namespaces {
            put(&mut out, b'n', &[&numbers(&[*inode]), name.as_bytes()]);
        }
        out
    }

    /// Reads an order.
    ///
    /// # Errors
    /// [`DecodeError`] on anything that [`Order::encode`] would not have written.
    pub fn decode(mut bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut order = Self::default();
        while let Some((&key, rest)) = bytes.split_first() {
            let (length, rest) = rest.split_first_chunk::<4>().ok_or(malformed("a length"))?;
            let length = u32::from_le_bytes(*length) as usize;
            let (value, rest) = rest.split_at_checked(length).ok_or(malformed("a value"))?;
            order.take(key, value)?;
            bytes = rest;
        }
        Ok(order)
    }

    fn take(&mut self, key: u8, value: &[u8]) -> Result<(), DecodeError> {
        let text = |bytes: &[u8]| OsString::from_vec(bytes.to_vec());
        match key {
            b'a' => self.arguments.push(text(value)),
            b'e' => self.environment.push(text(value)),
            b'w' => self.working_directory = text(value),
            b'd' => {
                let ([device, inode], _) = take_numbers(value)?;
                self.working_directory_identity = Some((device, inode));
            }
            b'i' => {
                let ([user, group, outer_user, outer_group], _) = take_numbers(value)?;
                let narrow = |id: u64| u32::try_from(id).map_err(|_| malformed("an id"));
                self.identity = Identity {
                    user: narrow(user)?,
                    group: narrow(group)?,
                    outer_user: narrow(outer_user)?,
                    outer_group: narrow(outer_group)?,
                };
            }
            b'f' => {
                let (path, content) = split_at_nul(value)?;
                self.files.push(File { path: text(path), content: content.to_vec() });
            }
            b'c' => {
                let ([kind, device, inode], paths) = take_numbers(value)?;
                let mut kinds = CarveKind::ALL.into_iter();
                let kind = kinds.find(|known| *known as u64 == kind).ok_or(malformed("a kind"))?;
                let (root, path) = split_at_nul(paths)?;
                self.carve.push(Carve { kind, root: text(root), path: text(path), device, inode });
            }
            b'o' => self.owned.push(text(value)),
            b'm' | b'x' => {
                let ([descriptor, device, inode], path) = take_numbers(value)?;
                let descriptor =
                    i32::try_from(descriptor).map_err(|_| malformed("a descriptor"))?;
                let mount = Mount { path: text(path), descriptor, device, inode };
                if key == b'm' { &mut self.attach } else { &mut self.expect }.push(mount);
            }
            b's' => self.filters.push(value.to_vec()),
            b'l' => {
                let ([open_files, file_size], _) = take_numbers(value)?;
                (self.open_files, self.file_size) = (open_files, file_size);
            }
            b't' => {
                let ([rows, columns, stdout, stderr], _) = take_numbers(value)?;
                let narrow = |size: u64| u16::try_from(size).map_err(|_| malformed("a size"));
                self.terminal = Some(Terminal {
                    rows: narrow(rows)?,
                    columns: narrow(columns)?,
                    stdout: stdout != 0,
                    stderr: stderr != 0,
                });
            }
            b'n' => {
                let ([inode], name) = take_numbers(value)?;
                let name = String::from_utf8(name.to_vec()).map_err(|_| malformed("a name"))?;
                self.outside_namespaces.push((name, inode));
            }
            _ => return Err(malformed("a known key")),
        }
        Ok(())
    }

    /// The value of a variable of the command's environment.
    pub fn variable(&self, name: &str) -> Option<&OsStr> {
        self.environment.iter().find_map(|variable| {
            let rest = variable.as_bytes().strip_prefix(name.as_bytes())?;
            rest.strip_prefix(b"=").map(OsStr::from_bytes)
        })
    }
}

fn put(out: &mut Vec<u8>, key: u8, parts: &[&[u8]]) {
    let length: usize = parts.iter().map(|part| part.len()).sum();
    out.push(key);
    // An order is far below 4 GiB: its largest part is a source, capped at 4 MiB.
    out.extend_from_slice(&(length as u32).to_le_bytes());
    for part in parts {
        out.extend_from_slice(part);
    }
}

fn split_at_nul(value: &[u8]) -> Result<(&[u8], &[u8]), DecodeError> {
    let end = value.iter().position(|byte| *byte == 0).ok_or(malformed("a path"))?;
    Ok((&value[..end], &value[end + 1..]))
}

fn numbers(values: &[u64]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

fn take_numbers<const N: usize>(mut bytes: &[u8]) -> Result<([u64; N], &[u8]), DecodeError> {
    let mut values = [0; N];
    for value in &mut values {
        let (number, rest) = bytes.split_first_chunk::<8>().ok_or(malformed("a number"))?;
        *value = u64::from_le_bytes(*number);
        bytes = rest;
    }
    Ok((values, bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Order {
        Order {
            arguments: vec!["python3".into(), OsString::from_vec(vec![0xff, b'x'])],
            environment: vec!["PATH=/usr/bin".into(), "A=b=c".into()],
            working_directory: "/w".into(),
            working_directory_identity: Some((8, u64::MAX)),
            identity: Identity { user: 1000, group: 1001, outer_user: 0, outer_group: 7 },
            files: vec![File { path: "/etc/hosts".into(), content: b"a\0b".to_vec() }],
            owned: vec!["/home/sandbox".into()],
            attach: vec![Mount { path: "/w".into(), descriptor: 16, device: 1, inode: 2 }],
            expect: vec![Mount { path: "/w".into(), descriptor: 0, device: 3, inode: u64::MAX }],
            carve: vec![Carve {
                kind: CarveKind::DenyFolder,
                root: "/w".into(),
                path: "a/.ssh".into(),
                device: 5,
                inode: 6,
            }],
            filters: vec![vec![1, 2, 3], vec![]],
            open_files: 512,
            file_size: 1 << 40,
            terminal: Some(Terminal { rows: 24, columns: 80, stdout: true, stderr: false }),
            outside_namespaces: vec![("mnt".into(), 4_026_531_840)],
        }
    }

    #[test]
    fn an_order_survives_the_way_in() {
        let order = sample();
        assert_eq!(Order::decode(&order.encode()), Ok(order));
    }

    #[test]
    fn a_cut_order_is_refused_and_never_panics() {
        let bytes = sample().encode();
        let whole = Order::decode(&bytes);
        for end in 0..bytes.len() {
            let cut = Order::decode(&bytes[..end]);
            assert!(cut.is_err() || cut != whole, "cut at {end}");
        }
    }

    #[test]
    fn a_variable_is_found_by_its_whole_name() {
        let order = sample();
        assert_eq!(order.variable("A"), Some(OsStr::new("b=c")));
        assert_eq!(order.variable("PAT"), None);
    }
}
