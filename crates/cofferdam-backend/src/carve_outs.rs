//! Carve-outs around one run: what mounts can fix before it, and what is moved out of place after.
//!
//! Before: the workspace is looked through, and every match is protected or denied by a mount, with
//! the folders above it pinned, so that they cannot be renamed from under it. After: whatever
//! matches and was not there before is quarantined, since no mount could foresee its name. Nothing
//! is ever created for a rule, so nothing of the kind can be left behind.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use cofferdam_fs::{Descend, EntryKind, Fingerprint, WalkLimits, WalkMemory, Workspace};
use cofferdam_init::{Carve, CarveKind};
use cofferdam_policy::{CarveOut, CarveOuts, Grant, carve_outs::QUARANTINE};

use crate::{folders::Folder, outcome::Quarantined};

/// How far the workspace is looked through. What lies deeper is denied as a whole.
const WALK: WalkLimits = WalkLimits { depth: 128, entries: 2_000_000 };

/// The most entries that are moved after a run. With more, the run is reported as not settled.
const MOST_QUARANTINED: usize = 20_000;

/// The rule by which a `.git` that is no folder is held, where rules are about repositories.
const GIT_ELSEWHERE: &str = "**/.git that is no folder";

/// Why a folder that nobody could look into is moved.
const OPAQUE: &str = "too deep, or closed, to be looked into";

/// What walks remember, by folder and rules: most of a workspace does not change between two runs.
#[derive(Debug, Default)]
pub(crate) struct Memories(Mutex<HashMap<MemoryKey, SharedMemory>>);

/// Device and inode of the folder, and what the rules are.
type MemoryKey = ((u64, u64), Vec<String>);
type SharedMemory = Arc<Mutex<WalkMemory>>;

/// The most folders that are remembered at once.
const MOST_MEMORIES: usize = 16;

impl Memories {
    fn of(&self, grant: &Grant, folder: &Workspace) -> SharedMemory {
        let filesystem = &grant.profile().filesystem;
        let rules = filesystem.deny.iter().chain(&filesystem.protect).cloned().collect();
        let mut memories = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if memories.len() >= MOST_MEMORIES {
            memories.clear();
        }
        memories.entry((folder.identity(), rules)).or_default().clone()
    }
}

/// What was found before a run.
#[derive(Debug, Default)]
pub(crate) struct Before {
    /// Every match, and everything below matching folders is with its folder.
    found: BTreeMap<PathBuf, Fingerprint>,
    /// Symbolic links among them, which no mount can fix.
    links: Vec<PathBuf>,
}

/// The rules could not be put in place.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CarveOutError {
    /// The walk failed.
    #[error("the workspace could not be looked through for `protect` and `deny`")]
    Walk(#[source] io::Error),
    /// There are too many entries to look at.
    #[error("the workspace has more than {} entries, too many to enforce `protect` and `deny`", WALK.entries)]
    TooMany,
    /// A match is a symbolic link.
    #[error(
        "`{0}` matches `protect` or `deny` and is a symbolic link, which cannot be held in place"
    )]
    Link(String),
}

impl CarveOutError {
    /// The next step, if there is one to name.
    pub(crate) fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Walk(_) => None,
            Self::TooMany => Some("use a smaller workspace, or a profile without such rules"),
            Self::Link(_) => Some(
                "replace the link by what it names, or use a profile whose rules do not match it",
            ),
        }
    }
}

/// The carve-outs of one run.
#[derive(Debug)]
pub(crate) struct Guard {
    rules: CarveOuts,
    /// By granted folder, the workspace first.
    before: Vec<(Workspace, SharedMemory, Before)>,
}

impl Guard {
    /// Looks the granted folders through; gives what has to be mounted.
    pub(crate) async fn prepare(
        grant: &Grant,
        folders: &[Folder],
        memories: &Memories,
    ) -> Result<(Self, Vec<Carve>), CarveOutError> {
        let rules = grant.profile().carve_outs.clone();
        let mut guard = Self { rules, before: Vec::new() };
        if guard.rules.is_empty() {
            return Ok((guard, Vec::new()));
        }
        let folders: Vec<_> = folders
            .iter()
            .map(|folder| (folder.held.clone(), memories.of(grant, &folder.held)))
            .collect();
        // Disks block; the runtime's threads must not.
        on_a_blocking_thread(move || {
            let mut carves = Vec::new();
            for (folder, memory) in folders {
                let (before, carved) = before(&guard.rules, &folder, &mut lock(&memory))?;
                carves.extend(carved);
                guard.before.push((folder, memory, before));
            }
            Ok((guard, carves))
        })
        .await
    }

    /// Looks the folders through again and moves out of place what was not there before.
    ///
    /// # Errors
    /// When a folder cannot be looked through; then nothing is known of what the run left.
    pub(crate) async fn settle(self) -> io::Result<Vec<Quarantined>> {
        if self.rules.is_empty() {
            return Ok(Vec::new());
        }
        on_a_blocking_thread(move || {
            let mut quarantined = Vec::new();
            for (number, (folder, memory, before)) in self.before.iter().enumerate() {
                let found = after(&self.rules, folder, before, &mut lock(memory))?;
                quarantined.extend(found.into_iter().map(|found| match number {
                    0 => found,
                    // Beside the workspace, only a whole path says where something is.
                    _ => Quarantined {
                        path: folder.path().join(found.path),
                        kept_as: found.kept_as.map(|kept| folder.path().join(kept)),
                        ..found
                    },
                }));
            }
            Ok(quarantined)
        })
        .await
    }
}

fn lock(memory: &SharedMemory) -> std::sync::MutexGuard<'_, WalkMemory> {
    // Whole even if a holder panicked: it is written one directory at a time.
    memory.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn on_a_blocking_thread<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(panic) => std::panic::resume_unwind(panic.into_panic()),
    }
}

fn before(
    rules: &CarveOuts,
    workspace: &Workspace,
    memory: &mut WalkMemory,
) -> Result<(Before, Vec<Carve>), CarveOutError> {
    let mut before = Before::default();
    let mut kinds: BTreeMap<PathBuf, CarveKind> = BTreeMap::new();
    let walked = workspace
        .walk(WALK, memory, wanted(rules), |entry| {
            let Some(kind) = decide(rules, entry.path, entry.kind) else { return Descend::Into };
            if entry.kind == EntryKind::Link {
                before.links.push(entry.path.to_owned());
            } else {
                kinds.insert(entry.path.to_owned(), kind);
            }
            // Below a denied folder nothing is reachable; below a protected one, something may be
            // denied.
            if kind == CarveKind::Protect { Descend::Into } else { Descend::Past }
        })
        .map_err(CarveOutError::Walk)?;
    if !walked.complete {
        return Err(CarveOutError::TooMany);
    }
    if let Some(link) = before.links.first() {
        return Err(CarveOutError::Link(link.display().to_string()));
    }
    kinds.extend(walked.opaque.into_iter().map(|path| (path, CarveKind::DenyFolder)));
    if workspace.fingerprint(Path::new(QUARANTINE)).is_ok() {
        kinds.insert(QUARANTINE.into(), CarveKind::DenyFolder);
    }

    let pins: BTreeSet<PathBuf> = kinds
        .keys()
        .flat_map(|path| path.ancestors().skip(1))
        .filter(|path| !path.as_os_str().is_empty() && !kinds.contains_key(*path))
        .map(Path::to_owned)
        .collect();
    kinds.extend(pins.into_iter().map(|path| (path, CarveKind::Pin)));

    let mut carves = Vec::with_capacity(kinds.len());
    // Sorted by path, so a folder comes before what is in it.
    for (path, kind) in kinds {
        let found = workspace.fingerprint(&path).map_err(CarveOutError::Walk)?;
        carves.push(Carve {
            kind,
            root: workspace.path().into(),
            path: path.clone().into(),
            device: found.device,
            inode: found.inode,
        });
        if kind != CarveKind::Pin {
            before.found.insert(path, found);
        }
    }
    Ok((before, carves))
}

fn after(
    rules: &CarveOuts,
    workspace: &Workspace,
    before: &Before,
    memory: &mut WalkMemory,
) -> io::Result<Vec<Quarantined>> {
    let mut left = look_again(rules, workspace, before, memory)?;
    // What was closed to hide something is opened and looked into; there may be more below.
    for _ in 0..WALK.depth {
        let opened = left.closed.iter().filter(|path| workspace.open_up(path).unwrap_or(false));
        if opened.count() == 0 {
            break;
        }
        left = look_again(rules, workspace, before, memory)?;
    }
    let allowed = |one: &Appeared| {
        rules.allow_new_repositories()
            && crate::repositories::is_plain(workspace, &one.path, one.kind)
    };
    let mut unwanted: Vec<_> = left
        .appeared
        .into_iter()
        .filter(|one| !allowed(one))
        .map(|one| (one.path, one.rule))
        .collect();
    unwanted.extend(left.closed.into_iter().map(|path| (path, OPAQUE.to_owned())));
    let mut quarantined = Vec::new();
    for (path, rule) in unwanted {
        match workspace.quarantine(&path) {
            Ok(kept_as) => quarantined.push(Quarantined { path, rule, kept_as: Some(kept_as) }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => {
                tracing::error!(path = %path.display(), %error, "quarantine failed");
                quarantined.push(Quarantined { path, rule, kept_as: None });
            }
        }
    }
    if left.too_many {
        return Err(io::Error::other("the run left more than can be moved out of place"));
    }
    Ok(quarantined)
}

/// What a run left.
struct Left {
    /// What matches and was not there before.
    appeared: Vec<Appeared>,
    /// Folders that cannot be looked into and could be before.
    closed: Vec<PathBuf>,
    /// There is more than was looked at.
    too_many: bool,
}

/// Something that matches and was not there before.
struct Appeared {
    path: PathBuf,
    kind: EntryKind,
    rule: String,
}

fn look_again(
    rules: &CarveOuts,
    workspace: &Workspace,
    before: &Before,
    memory: &mut WalkMemory,
) -> io::Result<Left> {
    let mut appeared = Vec::new();
    let walked = workspace.walk(WALK, memory, wanted(rules), |entry| {
        if entry.path == Path::new(QUARANTINE) && before.found.contains_key(entry.path) {
            return Descend::Past;
        }
        let Some((rule, glob)) = rule(rules, entry.path, entry.kind) else { return Descend::Into };
        let known = before.found.get(entry.path);
        let same = known.is_some_and(|known| {
            workspace.fingerprint(entry.path).is_ok_and(|found| is_same(rule, known, &found))
        });
        if same {
            // Still what was mounted over, and unchanged.
            return if rule == CarveOut::Protect { Descend::Into } else { Descend::Past };
        }
        if appeared.len() < MOST_QUARANTINED {
            let (path, kind) = (entry.path.to_owned(), entry.kind);
            appeared.push(Appeared { path, kind, rule: glob.to_owned() });
        }
        Descend::Past
    })?;
    let known = |path: &PathBuf| before.found.contains_key(path);
    let closed = walked.opaque.into_iter().filter(|path| !known(path)).collect();
    let too_many = !walked.complete || appeared.len() >= MOST_QUARANTINED;
    Ok(Left { appeared, closed, too_many })
}

/// Whether an entry is the one that was there before, as it was.
///
/// Of what is protected, the time of its last change counts too: a run that was under way already
/// may have moved it away, changed it, and put it back. What is denied is nobody's to obey, and its
/// owner may change it meanwhile.
fn is_same(rule: CarveOut, known: &Fingerprint, found: &Fingerprint) -> bool {
    let unchanged = rule == CarveOut::Deny || known.changed == found.changed;
    (known.device, known.inode) == (found.device, found.inode) && unchanged
}

fn wanted(rules: &CarveOuts) -> impl Fn(&Path, EntryKind) -> bool {
    |path, kind| rule(rules, path, kind).is_some()
}

/// The rule about an entry, which may depend on what it is.
fn rule<'a>(rules: &'a CarveOuts, path: &Path, kind: EntryKind) -> Option<(CarveOut, &'a str)> {
    rules.matching(path).or_else(|| {
        let elsewhere = kind != EntryKind::Directory
            && path.file_name().is_some_and(|name| name == ".git")
            && rules.guards_repositories();
        elsewhere.then_some((CarveOut::Protect, GIT_ELSEWHERE))
    })
}

fn decide(rules: &CarveOuts, path: &Path, kind: EntryKind) -> Option<CarveKind> {
    match (rule(rules, path, kind)?.0, kind) {
        (CarveOut::Protect, _) => Some(CarveKind::Protect),
        (CarveOut::Deny, EntryKind::Directory) => Some(CarveKind::DenyFolder),
        (CarveOut::Deny, _) => Some(CarveKind::DenyFile),
    }
}
