//! The picture that a run names in its last line.
//!
//! The line and the file are the run's, so both are hostile: the path is resolved beneath the
//! workspace, and the file counts as a picture only by its bytes.

use std::{
    ffi::OsStr,
    fs::File,
    io::{self, Read},
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use cofferdam_backend::{Ending, Outcome};
use cofferdam_fs::{PathError, Workspace};
use cofferdam_policy::{CarveOut, CarveOuts};

use crate::{failure::chain, shown::one_line};

/// The largest picture, in bytes.
const MOST_BYTES: u64 = 32 * 1024 * 1024;

/// Signature and first chunk up to the interlace method (PNG specification, 5.2 and 11.2.2).
const HEADER_BYTES: usize = 8 + 8 + 13;

/// Why there is no picture.
#[derive(Debug, thiserror::Error)]
pub(super) enum NoPicture {
    #[error("the run did not finish")]
    NotFinished,
    #[error("the run wrote no line to standard output")]
    NoLine,
    #[error("the last line of standard output is not the path of a picture")]
    Path(#[source] PathError),
    #[error("the profile denies what the last line of standard output names")]
    Denied,
    #[error("`{0}` is not a PNG image")]
    NotPng(String),
    #[error("`{path}` has {bytes} bytes, the limit is {MOST_BYTES} bytes")]
    TooLarge { path: String, bytes: u64 },
    #[error("the path of `{0}` is not UTF-8")]
    NotText(String),
    #[error("reading `{path}`")]
    Read {
        path: String,
        #[source]
        source: io::Error,
    },
}

impl NoPicture {
    /// The reason and its sources on one line.
    pub(super) fn reason(&self) -> String {
        chain(self)
    }
}

/// The absolute path of the picture that the last line of standard output names.
pub(super) fn find(
    outcome: &Outcome,
    workspace: &Workspace,
    working_directory: &Path,
    rules: &CarveOuts,
) -> Result<String, NoPicture> {
    if !matches!(outcome.ending, Ending::Exited(_) | Ending::Signaled(_)) {
        return Err(NoPicture::NotFinished);
    }
    let line = outcome.stdout.last_line.trim_ascii();
    if line.is_empty() {
        return Err(NoPicture::NoLine);
    }
    let named = working_directory.join(OsStr::from_bytes(line));
    let (file, path) = workspace.open_regular(&named).map_err(NoPicture::Path)?;
    // Decided on the name of what was opened, before anything of it is told.
    let relative = path.strip_prefix(workspace.path()).unwrap_or(&path);
    if matches!(rules.decide(relative), Some((CarveOut::Deny, _))) {
        return Err(NoPicture::Denied);
    }
    check(file, path)
}

fn check(mut file: File, path: PathBuf) -> Result<String, NoPicture> {
    let shown = one_line(path.as_os_str().as_bytes(), 200);
    let read = |source| NoPicture::Read { path: shown.clone(), source };
    let bytes = file.metadata().map_err(read)?.len();
    if bytes > MOST_BYTES {
        return Err(NoPicture::TooLarge { path: shown, bytes });
    }
    let mut header = [0; HEADER_BYTES];
    match file.read_exact(&mut header) {
        Ok(()) if is_png(&header) => {}
        Err(error) if error.kind() != io::ErrorKind::UnexpectedEof => return Err(read(error)),
        _ => return Err(NoPicture::NotPng(shown)),
    }
    path.into_os_string().into_string().map_err(|_| NoPicture::NotText(shown))
}

/// Whether a PNG image begins like this.
fn is_png(header: &[u8; HEADER_BYTES]) -> bool {
    let number = |at: usize| {
        header[at..at + 4].iter().fold(0, |number: u32, byte| number << 8 | u32::from(*byte))
    };
    let dimension = 1..=i32::MAX.unsigned_abs();
    let depths: &[u8] = match header[25] {
        0 => &[1, 2, 4, 8, 16],
        3 => &[1, 2, 4, 8],
        2 | 4 | 6 => &[8, 16],
        _ => &[],
    };
    header.starts_with(b"\x89PNG\r\n\x1a\n")
        && number(8) == 13
        && header[12..16] == *b"IHDR"
        && dimension.contains(&number(16))
        && dimension.contains(&number(20))
        && depths.contains(&header[24])
        && header[26..28] == [0, 0]
        && header[28] <= 1
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use super::*;
    use crate::tests::{outcome, png};

    fn place() -> (tempfile::TempDir, Workspace) {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("work/sub")).unwrap();
        fs::write(folder.path().join("work/sub/plot.png"), png(3, 2)).unwrap();
        fs::write(folder.path().join("outside.png"), png(3, 2)).unwrap();
        let workspace = Workspace::open(&folder.path().join("work"), &[]).unwrap();
        (folder, workspace)
    }

    fn found(workspace: &Workspace, cwd: &str, line: &[u8]) -> Result<String, String> {
        let mut outcome = outcome(Ending::Exited(0));
        outcome.stdout.last_line = line.to_vec();
        let profiles = crate::tests::profiles();
        let rules = &profiles.get("default").unwrap().carve_outs;
        let directory = workspace.path().join(cwd);
        find(&outcome, workspace, &directory, rules).map_err(|error| error.reason())
    }

    #[test]
    fn what_the_profile_denies_is_not_told() {
        let (_folder, workspace) = place();
        fs::create_dir(workspace.path().join(".ssh")).unwrap();
        fs::write(workspace.path().join(".ssh/a.png"), png(3, 2)).unwrap();
        symlink(".ssh/a.png", workspace.path().join("link.png")).unwrap();
        for line in [&b".ssh/a.png"[..], b"link.png"] {
            assert!(found(&workspace, ".", line).unwrap_err().contains("denies"));
        }
    }

    #[test]
    fn the_last_line_is_resolved_in_the_run_s_working_directory() {
        let (_folder, workspace) = place();
        let absolute =
            workspace.path().join("sub/plot.png").into_os_string().into_string().unwrap();
        assert_eq!(found(&workspace, "sub", b" plot.png \r").unwrap(), absolute);
        assert_eq!(found(&workspace, "", b"sub/plot.png").unwrap(), absolute);
        assert_eq!(found(&workspace, "", absolute.as_bytes()).unwrap(), absolute);
        assert!(found(&workspace, "", b"plot.png").unwrap_err().contains("File not found: "));
    }

    #[test]
    fn a_picture_outside_the_workspace_is_not_taken_by_path_or_link() {
        let (folder, workspace) = place();
        let outside = folder.path().join("outside.png");
        symlink(&outside, workspace.path().join("link.png")).unwrap();
        for line in ["../outside.png", outside.to_str().unwrap(), "link.png"] {
            let reason = found(&workspace, "", line.as_bytes()).unwrap_err();
            assert!(reason.contains("outside the workspace"), "{reason}");
        }
        // The control: the same file inside is a picture.
        fs::copy(&outside, workspace.path().join("copy.png")).unwrap();
        found(&workspace, "", b"copy.png").unwrap();
    }

    #[test]
    fn only_the_bytes_make_a_png() {
        let (_folder, workspace) = place();
        let write = |name: &str, bytes: &[u8]| fs::write(workspace.path().join(name), bytes);
        write("text.png", b"no picture at all, but long enough for a header").unwrap();
        write("short.png", b"\x89PNG").unwrap();
        write("zero.png", &png(0, 2)).unwrap();
        write("odd-name", &png(1, 1)).unwrap();
        for name in ["text.png", "short.png", "zero.png"] {
            let reason = found(&workspace, "", name.as_bytes()).unwrap_err();
            assert!(reason.ends_with("is not a PNG image"), "{reason}");
        }
        assert!(found(&workspace, "", b"odd-name").is_ok());
        let directory = found(&workspace, "", b"sub").unwrap_err();
        assert!(directory.contains("directory"), "{directory}");
    }

    #[test]
    fn a_picture_too_large_is_refused_without_reading_it() {
        let (_folder, workspace) = place();
        let file = File::create(workspace.path().join("sparse.png")).unwrap();
        file.set_len(MOST_BYTES + 1).unwrap();
        let reason = found(&workspace, "", b"sparse.png").unwrap_err();
        assert!(reason.contains("the limit is 33554432 bytes"), "{reason}");
    }

    #[test]
    fn no_line_and_no_end_are_told() {
        let (_folder, workspace) = place();
        assert_eq!(
            found(&workspace, "", b"").unwrap_err(),
            "the run wrote no line to standard output"
        );
        let mut outcome = outcome(Ending::Cancelled);
        outcome.stdout.last_line = b"sub/plot.png".to_vec();
        let rules = CarveOuts::default();
        let reason = find(&outcome, &workspace, workspace.path(), &rules).unwrap_err().reason();
        assert_eq!(reason, "the run did not finish");
    }
}
