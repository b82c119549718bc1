//! Where the configuration is written: which file, and which environment variables.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    fs::{self, File},
    io::{self, Read},
    path::{Path, PathBuf},
};

use cofferdam_policy::document::{Lines, read, read_variable, shown};

use super::{ConfigError, ConfigFile, raw::RawConfig, schema};

/// The most bytes of one file: room for a hundred thousand rules.
const MOST_BYTES: u64 = 16 * 1024 * 1024;

/// Begins the name of each variable of ours.
const PREFIX: &str = "COFFERDAM_";

/// A configuration file as written.
pub(super) struct Written {
    pub(super) file: ConfigFile,
    pub(super) raw: RawConfig,
    pub(super) lines: Lines,
}

/// One value from the environment.
pub(super) struct Variable {
    pub(super) name: String,
    pub(super) raw: RawConfig,
}

/// Finds and reads the file: the one that is named, else the first that exists where files are
/// looked for.
///
/// # Errors
/// [`ConfigError`] when the file that is named does not exist, when one cannot be read, or does not
/// hold to the schema.
pub(super) fn file(
    named: Option<&Path>,
    environment: &BTreeMap<OsString, OsString>,
    current: &Path,
    system: &Path,
) -> Result<Option<Written>, ConfigError> {
    let set = |name: &str| environment.get(&OsString::from(name)).filter(|value| !value.is_empty());
    if let Some(path) = named.or_else(|| set("COFFERDAM_CONFIG").map(Path::new)) {
        return read_file(current.join(path), true).map(Some);
    }
    // The base directory specification has relative values ignored.
    let absolute = |name: &str| set(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let user = absolute("XDG_CONFIG_HOME")
        .or_else(|| absolute("HOME").map(|home| home.join(".config")))
        .map(|folder| folder.join("cofferdam/cofferdam.toml"));
    for path in
        [Some(current.join("cofferdam.toml")), user, Some(system.to_owned())].into_iter().flatten()
    {
        // Nobody named it, so it may be anybody's: a FIFO would hold the start up for ever.
        let special = fs::metadata(&path).is_ok_and(|metadata| !metadata.is_file());
        if special {
            let source = io::Error::other("not a regular file");
            return Err(ConfigError::Read { path, source });
        }
        match read_file(path, false) {
            Err(ConfigError::Read { source, .. }) if is_absent(&source) => {}
            found => return found.map(Some),
        }
    }
    Ok(None)
}

/// Reads again what was read before: that very path, wherever else files are looked for.
///
/// # Errors
/// As for [`fn@file`]; also for what is no regular file any more, which could hold the reader up for
/// ever.
pub(super) fn again(file: &ConfigFile) -> Result<Written, ConfigError> {
    let path = file.path.clone();
    match fs::metadata(&path) {
        Ok(metadata) if !metadata.is_file() => {
            Err(ConfigError::Read { path, source: io::Error::other("not a regular file") })
        }
        Ok(_) => read_file(path, file.named),
        Err(source) => Err(ConfigError::Read { path, source }),
    }
}

/// Whether nothing is there, rather than something that cannot be read.
fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

fn read_file(path: PathBuf, named: bool) -> Result<Written, ConfigError> {
    match text(&path) {
        Ok(text) => written(ConfigFile { path, named, text }),
        Err(source) => Err(ConfigError::Read { path, source }),
    }
}

/// Holds what a file says against the schema.
///
/// # Errors
/// [`ConfigError::File`].
pub(super) fn written(file: ConfigFile) -> Result<Written, ConfigError> {
    match read::<RawConfig>(&file.text, schema()) {
        Ok((raw, lines)) => Ok(Written { file, raw, lines }),
        Err(source) => Err(ConfigError::File { path: file.path, source }),
    }
}

/// The text of a file that is not larger than any sensible one.
pub(super) fn text(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    if File::open(path)?.take(MOST_BYTES + 1).read_to_string(&mut text)? as u64 > MOST_BYTES {
        return Err(io::Error::new(
            io::ErrorKind::FileTooLarge,
            format!("larger than {MOST_BYTES} bytes"),
        ));
    }
    Ok(text)
}

/// Reads all variables of ours: `COFFERDAM_<SECTION>__<KEY>`.
///
/// # Errors
/// [`ConfigError`] for the first that names no key, or holds what its key does not take.
pub(super) fn variables(
    environment: &BTreeMap<OsString, OsString>,
) -> Result<Vec<Variable>, ConfigError> {
    let mut variables = Vec::new();
    for (name, value) in environment {
        let spelled = name.to_string_lossy();
        // Names without the double underscore are others' business: COFFERDAM_CONFIG.
        let Some((section, key)) =
            spelled.strip_prefix(PREFIX).and_then(|rest| rest.split_once("__"))
        else {
            continue;
        };
        let value = value.to_str().ok_or_else(|| ConfigError::NotUtf8(shown(&spelled)))?;
        let path = [&*section.to_lowercase(), &*key.to_lowercase()];
        let raw =
            read_variable(&spelled, &path, value, schema()).map_err(ConfigError::Environment)?;
        variables.push(Variable { name: spelled.into_owned(), raw });
    }
    Ok(variables)
}
