//! One captured stream as text: whole, or head and tail with a line that says what is missing.
//!
//! Cuts fall between characters. The count of dropped bytes is of the stream as it was written, not
//! of the text, in which a byte that is no UTF-8 takes three.

use std::{
    io::Write,
    path::{Path, PathBuf},
};

use cofferdam_backend::Captured;
use cofferdam_fs::Workspace;

use crate::failure::chain;

/// Where whole streams lie, below the workspace.
const SPILL_FOLDER: &str = ".tmp/runs";

/// A stream as it is shown.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ShownStream {
    pub(super) text: String,
    /// Bytes that are not in the text.
    pub(super) dropped: u64,
    /// Where the whole stream lies, up to the cap.
    pub(super) file: Option<PathBuf>,
}

/// How a stream is shown.
#[derive(Clone, Copy, Debug)]
pub(super) struct StreamLimits {
    /// Bytes of text.
    pub(super) shown: usize,
    /// Cap of the spill file, in MiB.
    pub(super) spilled_mib: u64,
}

/// Makes text of a stream, and a file when the text does not hold all of it.
pub(super) fn show(
    captured: Captured,
    limits: StreamLimits,
    workspace: &Workspace,
    file_name: &str,
) -> ShownStream {
    let Captured { head, tail, total_bytes, dropped_bytes, spill, spill_capped, .. } = captured;
    if dropped_bytes == 0 {
        let text = String::from_utf8_lossy(&head);
        if text.len() <= limits.shown {
            return ShownStream { text: text.into_owned(), dropped: 0, file: None };
        }
    }
    let spilled = match spill {
        Some(spill) => Some(spill),
        // All bytes are here, but as text they are too long.
        None if dropped_bytes == 0 => spill_now(workspace, &head),
        None => None,
    };
    let file = spilled.and_then(|spill| {
        workspace
            .publish(spill, Path::new(SPILL_FOLDER), file_name)
            .inspect_err(|error| tracing::warn!(error = chain(error), "keeping output failed"))
            .ok()
    });
    let whole = match &file {
        Some(path) if spill_capped => {
            format!("; the first {} MiB of the output in {}", limits.spilled_mib, path.display())
        }
        Some(path) => format!("; whole output in {}", path.display()),
        None => String::new(),
    };
    let mark = |dropped| format!("\n[cofferdam: {dropped} bytes dropped{whole}]\n");
    let budget = limits.shown.saturating_sub(mark(total_bytes).len());
    let end = if dropped_bytes == 0 { &head } else { &tail };
    let (start_text, start_bytes) = beginning(&head, budget / 2);
    let (end_text, end_bytes) = ending(end, budget - start_text.len());
    let dropped = total_bytes - start_bytes as u64 - end_bytes as u64;
    ShownStream { text: format!("{start_text}{}{end_text}", mark(dropped)), dropped, file }
}

fn spill_now(workspace: &Workspace, bytes: &[u8]) -> Option<cofferdam_fs::Spill> {
    let mut spill = workspace.spill().ok()?;
    spill.write_all(bytes).ok()?;
    Some(spill)
}

/// As much of the beginning as fits into `budget` bytes of text, and how many bytes that was.
///
/// A character that is cut off at the very end is left out.
fn beginning(bytes: &[u8], budget: usize) -> (String, usize) {
    let mut text = String::new();
    let mut taken = 0;
    for (character, length) in characters(bytes) {
        let Some(character) = character else { break };
        if text.len() + character.len_utf8() > budget {
            break;
        }
        text.push(character);
        taken += length;
    }
    (text, taken)
}

/// As much of the end as fits into `budget` bytes of text, and how many bytes that was.
///
/// The rest of a character that was cut off before is left out.
fn ending(bytes: &[u8], budget: usize) -> (String, usize) {
    let rest = bytes.iter().take(3).take_while(|byte| **byte & 0xc0 == 0x80).count();
    let characters: Vec<_> = characters(&bytes[rest..])
        .map(|(character, length)| (character.unwrap_or(char::REPLACEMENT_CHARACTER), length))
        .collect();
    let mut length = 0;
    let mut taken = 0;
    let mut first = characters.len();
    for (index, (character, bytes)) in characters.iter().enumerate().rev() {
        if length + character.len_utf8() > budget {
            break;
        }
        length += character.len_utf8();
        taken += bytes;
        first = index;
    }
    (characters[first..].iter().map(|(character, _)| character).collect(), taken)
}

/// The characters of lossy UTF-8, each with the bytes that it stands for; `None` for a character
/// whose end is missing at the end of the bytes.
fn characters(bytes: &[u8]) -> impl Iterator<Item = (Option<char>, usize)> {
    bytes.utf8_chunks().flat_map(|chunk| {
        let invalid = chunk.invalid();
        let unfinished = std::str::from_utf8(invalid).is_err_and(|e| e.error_len().is_none());
        let replacement = (!unfinished).then_some(char::REPLACEMENT_CHARACTER);
        chunk
            .valid()
            .chars()
            .map(|character| (Some(character), character.len_utf8()))
            .chain((!invalid.is_empty()).then_some((replacement, invalid.len())))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: StreamLimits = StreamLimits { shown: 200, spilled_mib: 64 };

    fn workspace() -> (tempfile::TempDir, Workspace) {
        let folder = tempfile::tempdir().unwrap();
        let workspace = Workspace::open(folder.path(), &[]).unwrap();
        (folder, workspace)
    }

    fn whole(bytes: &[u8]) -> Captured {
        Captured { head: bytes.to_vec(), total_bytes: bytes.len() as u64, ..Captured::default() }
    }

    /// What a capture that keeps `kept` bytes makes of a stream.
    fn cut(bytes: &[u8], kept: usize, workspace: Option<&Workspace>) -> Captured {
        let spill = workspace.map(|workspace| {
            let mut spill = workspace.spill().unwrap();
            spill.write_all(bytes).unwrap();
            spill
        });
        Captured {
            head: bytes[..kept / 2].to_vec(),
            tail: bytes[bytes.len() - kept / 2..].to_vec(),
            total_bytes: bytes.len() as u64,
            dropped_bytes: (bytes.len() - kept / 2 * 2) as u64,
            spill,
            ..Captured::default()
        }
    }

    /// The head, the number in the mark, and the tail.
    fn parts(text: &str) -> (&str, u64, &str) {
        let (head, rest) = text.split_once("\n[cofferdam: ").unwrap();
        let (dropped, rest) = rest.split_once(" bytes dropped").unwrap();
        let (_, tail) = rest.split_once("]\n").unwrap();
        (head, dropped.parse().unwrap(), tail)
    }

    #[test]
    fn what_fits_is_shown_as_it_is_with_carriage_returns() {
        let (_folder, workspace) = workspace();
        let shown = show(whole(b"a\r\nb\rc\xff.png"), LIMITS, &workspace, "x");
        assert_eq!(shown.text, "a\r\nb\rc\u{fffd}.png");
        assert_eq!((shown.dropped, shown.file), (0, None));
    }

    #[test]
    fn head_and_tail_and_the_place_of_the_whole_are_shown() {
        let (_folder, workspace) = workspace();
        let stream: String = (0..1000).map(|number| format!("{number}\n")).collect();
        let limits = StreamLimits { shown: 400, ..LIMITS };
        let captured = cut(stream.as_bytes(), 400, Some(&workspace));
        let shown = show(captured, limits, &workspace, "1-stdout.txt");
        let file = shown.file.unwrap();
        assert_eq!(file, workspace.path().join(".tmp/runs/1-stdout.txt"));
        assert_eq!(std::fs::read_to_string(&file).unwrap(), stream);
        assert!(shown.text.len() <= 400, "{}", shown.text.len());
        assert!(shown.text.contains(&format!("whole output in {}]", file.display())));
        let (head, dropped, tail) = parts(&shown.text);
        assert!(stream.starts_with(head) && stream.ends_with(tail));
        assert_eq!(head.len() + tail.len() + dropped as usize, stream.len());
        assert_eq!(shown.dropped, dropped);
    }

    #[test]
    fn nothing_is_cut_inside_a_character() {
        let (_folder, workspace) = workspace();
        for filler in 0..4 {
            let stream = format!("{}{}", "x".repeat(filler), "€".repeat(300));
            let shown = show(cut(stream.as_bytes(), 200, None), LIMITS, &workspace, "x");
            assert!(!shown.text.contains('\u{fffd}'), "{}", shown.text);
            let (head, dropped, tail) = parts(&shown.text);
            assert_eq!(head.len() + tail.len() + dropped as usize, stream.len());
        }
    }

    #[test]
    fn bytes_that_are_no_text_do_not_break_the_bound_and_are_all_kept_in_the_file() {
        let (_folder, workspace) = workspace();
        let stream = [0xff; 190];
        let limits = StreamLimits { shown: 300, ..LIMITS };
        let shown = show(whole(&stream), limits, &workspace, "2-stderr.txt");
        assert!(shown.text.len() <= 300, "{}", shown.text.len());
        assert_eq!(std::fs::read(shown.file.unwrap()).unwrap(), stream);
        let (head, dropped, tail) = parts(&shown.text);
        let kept = head.chars().count() + tail.chars().count();
        assert_eq!(kept as u64 + dropped, 190);
    }

    #[test]
    fn a_file_that_is_capped_too_is_not_called_whole() {
        let (_folder, workspace) = workspace();
        let captured = Captured { spill_capped: true, ..cut(&[b'x'; 1000], 400, Some(&workspace)) };
        let limits = StreamLimits { shown: 400, ..LIMITS };
        let shown = show(captured, limits, &workspace, "x");
        assert!(shown.text.contains("the first 64 MiB of the output in"), "{}", shown.text);
        assert!(!shown.text.contains("whole"));
    }

    #[test]
    fn without_a_file_the_line_says_only_what_is_missing() {
        let (_folder, workspace) = workspace();
        let shown = show(cut(&[b'x'; 1000], 200, None), LIMITS, &workspace, "x");
        assert!(shown.text.contains(" bytes dropped]\n"), "{}", shown.text);
        assert_eq!(shown.file, None);
    }

    #[test]
    fn a_folder_that_the_run_replaced_by_a_link_costs_only_the_file() {
        let (_folder, workspace) = workspace();
        let outside = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink(outside.path(), workspace.path().join(".tmp")).unwrap();
        let captured = cut(&[b'x'; 1000], 200, Some(&workspace));
        let shown = show(captured, LIMITS, &workspace, "x");
        assert!(shown.text.contains(" bytes dropped]\n"));
        assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 0);
    }
}
