//! Why bubblewrap could not build a sandbox, in words and with the remedy.
//!
//! The cause is what bubblewrap itself printed; the remedy comes from the kernel's settings, which
//! are read, not guessed from that text.

use super::Unusable;

/// Explains a failed start. `printed` is bubblewrap's own standard error.
pub(crate) fn explain(printed: &str) -> Unusable {
    let printed: String =
        printed.lines().next().unwrap_or_default().chars().take(200).flat_map(escape).collect();
    let cause = if printed.is_empty() { "it said nothing".to_owned() } else { printed };
    Unusable::Blocked(cause, remedy(|path| std::fs::read_to_string(path).ok()))
}

fn escape(character: char) -> impl Iterator<Item = char> {
    let shown = if character.is_control() { '\u{fffd}' } else { character };
    std::iter::once(shown)
}

/// The remedy, from settings as `read` gives them.
fn remedy(read: impl Fn(&str) -> Option<String>) -> String {
    let is = |path: &str, value: &str| read(path).is_some_and(|text| text.trim() == value);
    if is("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1") {
        "AppArmor forbids unprivileged user namespaces here; allow them for bubblewrap by a \
         profile for /usr/bin/bwrap with `userns,` in /etc/apparmor.d, or for everybody with \
         `sysctl kernel.apparmor_restrict_unprivileged_userns=0`"
            .to_owned()
    } else if is("/proc/sys/user/max_user_namespaces", "0") {
        "user namespaces are switched off here: `sysctl user.max_user_namespaces=15000`".to_owned()
    } else if is("/proc/sys/kernel/unprivileged_userns_clone", "0") {
        "unprivileged user namespaces are switched off here: `sysctl \
         kernel.unprivileged_userns_clone=1`"
            .to_owned()
    } else {
        "run `bwrap --unshare-all --ro-bind / / true` by hand: what it says is what is missing; \
         inside a container, user namespaces and an unmasked /proc must be allowed"
            .to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn remedy_with(setting: &'static str, value: &'static str) -> String {
        remedy(|path| (path == setting).then(|| format!("{value}\n")))
    }

    #[test]
    fn the_setting_that_forbids_is_named() {
        for (setting, value) in [
            ("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1"),
            ("/proc/sys/user/max_user_namespaces", "0"),
            ("/proc/sys/kernel/unprivileged_userns_clone", "0"),
        ] {
            let name = setting.rsplit('/').next().unwrap_or_default();
            assert!(remedy_with(setting, value).contains(name), "{setting}");
            assert!(!remedy_with(setting, "7").contains(&format!("sysctl {name}")), "{setting}");
        }
    }

    #[test]
    fn what_bubblewrap_printed_is_shown_bounded_and_escaped() {
        let Unusable::Blocked(cause, _) = explain("bwrap: no\x1b[31m\nsecond line") else {
            panic!("not blocked")
        };
        assert_eq!(cause, "bwrap: no\u{fffd}[31m");
    }
}
