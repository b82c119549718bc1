//! From the configuration as written to what the server runs on: defaults, validation, absolute
//! paths.

use std::{
    net::{IpAddr, Ipv4Addr},
    path::{Path, PathBuf},
    time::Duration,
};

use cofferdam_gateway::{ResultForm, ToolNames};
use cofferdam_policy::{
    ToolRule, ToolRules,
    document::{DocumentError, Layers, Origin, Picked, Place, absolute_path, duration, shown},
    profile::tool_glob,
    tool_rules::PatternError,
};

use super::{
    Approval, Config, Execution, Server, Token, Workspace, audit,
    raw::{Channel, Mode, Outside, RawConfig, RawResultForm, RawToken, RawToolNames, ToolMode},
};

type Problem<T> = Result<T, DocumentError>;
type Keys<'a> = Layers<'a, RawConfig>;

/// From where relative paths count.
pub(super) struct Folders<'a> {
    /// The configuration file, if there is one: relative paths in it count from its folder.
    pub(super) file: Option<&'a Path>,
    /// The current directory.
    pub(super) current: &'a Path,
    /// Where this user's programs keep what shall outlive them, if there is such a folder.
    pub(super) state: Option<&'a Path>,
}

impl Folders<'_> {
    /// Makes a path absolute. What a file says counts from its own folder, what a variable or a
    /// default says from the current directory.
    pub(super) fn absolute<T>(
        &self,
        picked: &Picked<'_, T>,
        path: &str,
    ) -> Result<PathBuf, String> {
        if path.is_empty() || path.contains('\0') {
            return Err(format!("must be a path, not `{}`", shown(path)));
        }
        let folder = match self.folder() {
            Some(folder) if matches!(picked.place.origin(), Origin::Line { .. }) => folder,
            _ => self.current,
        };
        Ok(folder.join(path).components().collect())
    }

    /// The folder of the configuration file.
    fn folder(&self) -> Option<&Path> {
        self.file.and_then(Path::parent)
    }

    /// Where a value is written, for people who need not know the folders of this machine.
    fn shown(&self, origin: &Origin) -> String {
        match origin {
            Origin::Line { line } => {
                let name = self.file.and_then(Path::file_name).unwrap_or_default();
                format!("{}:{line}", name.to_string_lossy())
            }
            Origin::Variable { name } | Origin::Option { name } => name.clone(),
            Origin::Default | Origin::Inherited { .. } => "built in".to_owned(),
        }
    }
}

/// Decides every value.
pub(super) fn resolve(mut keys: Keys<'_>, folders: &Folders<'_>) -> Problem<Config> {
    Ok(Config {
        server: server(&mut keys)?,
        workspace: workspace(&mut keys, folders)?,
        execution: execution(&mut keys, folders)?,
        tools: tools(&mut keys, folders)?,
        approval: approval(&mut keys)?,
        audit: audit::resolve(&mut keys, folders)?,
        tokens: tokens(&mut keys)?,
        file: None,
        unread_profile_dirs: Vec::new(),
        origins: keys.into_origins(),
    })
}

fn server(keys: &mut Keys<'_>) -> Problem<Server> {
    let host = keys.pick("server.host", |raw| &raw.server.host, "127.0.0.1".to_owned());
    let path = keys.pick("server.path", |raw| &raw.server.path, "/mcp".to_owned());
    let hosts = keys.pick_list("server.allowed_hosts", |raw| &raw.server.allowed_hosts, vec![]);
    let drain = keys.pick("server.drain", |raw| &raw.server.drain, "20s".to_owned());
    Ok(Server {
        host: loopback(&host)?,
        port: keys.pick("server.port", |raw| &raw.server.port, 8050).value,
        path: path.parse(|text| route(text))?,
        tool_names: match keys
            .pick("server.tool_names", |raw| &raw.server.tool_names, RawToolNames::Dotted)
            .value
        {
            RawToolNames::Dotted => ToolNames::Dotted,
            RawToolNames::Underscore => ToolNames::Underscore,
            RawToolNames::Both => ToolNames::Both,
        },
        result_form: match keys
            .pick("server.result_form", |raw| &raw.server.result_form, RawResultForm::Wrapped)
            .value
        {
            RawResultForm::Wrapped => ResultForm::Wrapped,
            RawResultForm::Plain => ResultForm::Plain,
        },
        inline_images: keys
            .pick("server.inline_images", |raw| &raw.server.inline_images, false)
            .value,
        allowed_hosts: hosts.parse_each(|host| host_name(host))?,
        drain: drain.parse(|text| at_most(text, Duration::from_secs(60 * 60), "1h"))?,
    })
}

fn loopback(host: &Picked<'_, String>) -> Problem<String> {
    let text = host.value.as_str();
    let address: IpAddr = match text {
        "localhost" => Ipv4Addr::LOCALHOST.into(),
        text => text.parse().map_err(|_| {
            host.place.invalid(format!("must be an IP address, not `{}`", shown(text)))
        })?,
    };
    // Tokens are read and checked but not yet asked for, so they cannot make this safe.
    if !address.is_loopback() {
        return Err(host.place.invalid_but(
            format!("must be a loopback address, not `{address}`: callers are not told apart yet"),
            "use 127.0.0.1, ::1 or localhost, and a tunnel for other machines",
        ));
    }
    Ok(address.to_string())
}

/// A path that can be a route and nothing but itself: no parameters, no wildcards.
fn route(text: &str) -> Result<String, String> {
    let good = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte);
    let parts = text.strip_prefix('/').unwrap_or_default().split('/');
    if text.bytes().all(good) && parts.into_iter().all(|part| !matches!(part, "" | "." | "..")) {
        Ok(text.to_owned())
    } else {
        Err(format!("must be the path of a URL, not `{}`", shown(text)))
    }
}

/// `name`, `name:port` or `scheme://name:port`, as the gateway compares them.
fn host_name(text: &str) -> Result<String, String> {
    let good = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:/[]".contains(&byte);
    let host = text.split_once("://").map_or(text, |(_, host)| host);
    if !host.is_empty() && !host.contains('/') && text.bytes().all(good) {
        Ok(text.to_ascii_lowercase())
    } else {
        Err(format!(
            "must be a host name, a host with its port, or an origin, not `{}`",
            shown(text)
        ))
    }
}

fn at_most(text: &str, longest: Duration, longest_shown: &str) -> Result<Duration, String> {
    let length = duration(text)?;
    if length > longest {
        return Err(format!("must be at most {longest_shown}, not `{}`", shown(text)));
    }
    Ok(length)
}

fn workspace(keys: &mut Keys<'_>, folders: &Folders<'_>) -> Problem<Workspace> {
    let root = keys.pick("workspace.root", |raw| &raw.workspace.root, ".".to_owned());
    let read = keys.pick_list(
        "workspace.read_whitelist_paths",
        |raw| &raw.workspace.read_whitelist_paths,
        vec![],
    );
    let write = keys.pick_list(
        "workspace.write_whitelist_paths",
        |raw| &raw.workspace.write_whitelist_paths,
        vec![],
    );
    Ok(Workspace {
        root: root.parse(|path| folders.absolute(&root, path))?,
        per_session: keys
            .pick("workspace.per_session", |raw| &raw.workspace.per_session, false)
            .value,
        read_whitelist_paths: read.parse_each(|path| absolute_path(path))?,
        write_whitelist_paths: write.parse_each(|path| absolute_path(path))?,
        outside: keys.pick("workspace.outside", |raw| &raw.workspace.outside, Outside::Ask).value,
    })
}

fn execution(keys: &mut Keys<'_>, folders: &Folders<'_>) -> Problem<Execution> {
    let profile = keys.pick(
        "execution.default_profile",
        |raw| &raw.execution.default_profile,
        "default".to_owned(),
    );
    let dirs = keys.pick_list("execution.profile_dirs", |raw| &raw.execution.profile_dirs, vec![]);
    let profile_dirs = match (&dirs.place.origin(), folders.folder()) {
        (Origin::Default, Some(folder)) => vec![folder.join("sandbox-profiles")],
        // Without a file there is no folder that an admin chose: one in the current directory could
        // be the work of whoever wrote the repository there.
        (Origin::Default, None) => vec![],
        _ => dirs.parse_each(|path| folders.absolute(&dirs, path))?,
    };
    Ok(Execution {
        default_profile: profile.value,
        profile_dirs,
        mode: keys.pick("execution.mode", |raw| &raw.execution.mode, Mode::Serial).value,
        max_running: keys.pick("execution.max_running", |raw| &raw.execution.max_running, 8).value,
        max_queued: keys.pick("execution.max_queued", |raw| &raw.execution.max_queued, 64).value,
        worker_restart_limit: keys
            .pick("execution.worker_restart_limit", |raw| &raw.execution.worker_restart_limit, 5)
            .value,
    })
}

fn tools(keys: &mut Keys<'_>, folders: &Folders<'_>) -> Problem<ToolRules> {
    let rules = keys.pick_list("tools.rule", |raw| &raw.tools.rule, vec![]);
    let rules = rules.entries().map(|(place, rule)| {
        let pattern: Result<_, PatternError> = rule.pattern.parse();
        let pattern = pattern.map_err(|error| place.key("pattern").invalid(error.to_string()))?;
        let origin = folders.shown(&place.origin());
        Ok(ToolRule { pattern, active: rule.mode == ToolMode::Activate, origin })
    });
    let rules = rules.collect::<Problem<_>>()?;
    let default_mode =
        keys.pick("tools.default_mode", |raw| &raw.tools.default_mode, ToolMode::Activate).value;
    Ok(ToolRules { default_active: default_mode == ToolMode::Activate, rules })
}

fn approval(keys: &mut Keys<'_>) -> Problem<Approval> {
    let wait = keys.pick("approval.wait", |raw| &raw.approval.wait, "5m".to_owned());
    Ok(Approval {
        wait: wait.parse(|text| duration(text))?,
        channel: keys.pick("approval.channel", |raw| &raw.approval.channel, Channel::Auto).value,
    })
}

fn tokens(keys: &mut Keys<'_>) -> Problem<Vec<Token>> {
    let written = keys.pick_list("token", |raw| &raw.token, vec![]);
    let mut tokens: Vec<Token> = Vec::new();
    for (place, raw) in written.entries() {
        let token = token(&place, raw)?;
        if tokens.iter().any(|other| other.name == token.name) {
            return Err(place.key("name").invalid_but(
                format!("is `{}`, as that of another token", shown(&token.name)),
                "give each caller a name of its own",
            ));
        }
        tokens.push(token);
    }
    Ok(tokens)
}

fn token(place: &Place<'_>, raw: &RawToken) -> Problem<Token> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.@".contains(&byte);
    if raw.name.is_empty() || raw.name.len() > 64 || !raw.name.bytes().all(plain) {
        return Err(place.key("name").invalid(format!(
            "must be of letters, digits, `-`, `_`, `.` and `@`, at most 64, not `{}`",
            shown(&raw.name)
        )));
    }
    let tools = raw.tools.as_ref().map(|globs| {
        let place = place.key("tools");
        let globs = globs.iter().enumerate();
        globs
            .map(|(index, glob)| {
                tool_glob(glob).map_err(|reason| place.entry(index).invalid(reason))
            })
            .collect::<Problem<_>>()
    });
    Ok(Token {
        name: raw.name.clone(),
        sha256: digest(&raw.sha256).map_err(|reason| place.key("sha256").invalid(reason))?,
        profiles: raw.profiles.clone(),
        tools: tools.transpose()?,
        max_running: raw.max_running,
    })
}

fn digest(text: &str) -> Result<[u8; 32], String> {
    // Not shown: what stands here by mistake may be the token itself.
    let wrong = || "must be a SHA-256 in hexadecimal, 64 digits".to_owned();
    let mut digest = [0; 32];
    if text.len() != 64 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Err(wrong());
    }
    for (index, byte) in digest.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * index..2 * index + 2], 16).map_err(|_| wrong())?;
    }
    Ok(digest)
}
