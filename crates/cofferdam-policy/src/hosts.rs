//! Hosts, and the patterns of `network.allow`.
//!
//! Pure text: nothing is resolved, and what a group stands for is worked out when a run starts.

use std::net::Ipv4Addr;

use crate::document::shown;

/// A host and a port that somebody wants to reach.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostPort {
    /// The name or IPv4 address, in lower case.
    pub host: String,
    /// The port.
    pub port: u16,
}

/// One entry of `network.allow`, taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostPattern<'a> {
    /// One host.
    Exact {
        /// Its name or IPv4 address.
        host: &'a str,
        /// The port.
        port: u16,
    },
    /// Every name below a domain, at any depth, and not the domain itself.
    Below {
        /// The domain.
        domain: &'a str,
        /// The port.
        port: u16,
    },
    /// A group: its hosts are known when a run starts.
    Group(&'a str),
}

impl HostPort {
    /// Reads `host:port`.
    ///
    /// # Errors
    /// What is wrong, to be put behind the name of what holds it.
    pub fn parse(text: &str) -> Result<Self, String> {
        let wrong = |what: &str| Err(format!("must be `host:port`, not `{}`{what}", shown(text)));
        let Some((host, port)) = text.rsplit_once(':') else {
            return wrong(": the port is missing");
        };
        let Some(port) = port_number(port) else {
            return wrong(": the port must be from 1 to 65535");
        };
        if let Err(reason) = host_name(host) {
            return wrong(reason);
        }
        Ok(Self { host: host.to_ascii_lowercase(), port })
    }

    /// Whether the host is, by its very name, this machine or one of a private network.
    ///
    /// A public name can lead there too, which only shows when it is resolved.
    pub fn is_private(&self) -> bool {
        let name = self.host.as_str();
        let Ok(address) = name.parse::<Ipv4Addr>() else {
            return name == "localhost" || name.ends_with(".localhost");
        };
        let shared = address.octets()[0] == 100 && address.octets()[1] & 0xc0 == 64;
        address.is_loopback()
            || address.is_private()
            || address.is_link_local()
            || address.is_unspecified()
            || address.is_broadcast()
            || shared
    }
}

impl<'a> HostPattern<'a> {
    /// Takes an entry apart that was checked when its profile was loaded; `None` for anything else.
    pub fn parse(text: &'a str) -> Option<Self> {
        if let Some(group) = text.strip_prefix('@') {
            return Some(Self::Group(group));
        }
        let (host, port) = text.rsplit_once(':')?;
        let port = port_number(port)?;
        Some(match host.strip_prefix("*.") {
            Some(domain) => Self::Below { domain, port },
            None => Self::Exact { host, port },
        })
    }

    /// Whether the pattern is about that host, as far as that can be said before a run.
    pub fn matches(&self, wanted: &HostPort) -> bool {
        match *self {
            Self::Exact { host, port } => port == wanted.port && host == wanted.host,
            Self::Below { domain, port } => port == wanted.port && is_below(&wanted.host, domain),
            Self::Group(_) => false,
        }
    }

    /// The patterns, as they are written, that are about every host that this one is about, itself
    /// left out.
    pub fn wider(&self) -> impl Iterator<Item = String> + use<'a> {
        let (name, port) = match *self {
            Self::Exact { host, port } => (host, port),
            Self::Below { domain, port } => (domain, port),
            Self::Group(_) => ("", 0),
        };
        let domains = std::iter::successors(name.split_once('.'), |(_, rest)| rest.split_once('.'));
        domains.map(move |(_, domain)| format!("*.{domain}:{port}"))
    }
}

fn is_below(name: &str, domain: &str) -> bool {
    name.strip_suffix(domain).is_some_and(|above| above.len() > 1 && above.ends_with('.'))
}

/// Reads a port.
pub(crate) fn port_number(text: &str) -> Option<u16> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| text.parse().ok()).flatten().filter(|port| *port > 0)
}

/// Whether a text is a host name or an IPv4 address; the error is the end of a message.
pub(crate) fn host_name(name: &str) -> Result<(), &'static str> {
    if !name.is_ascii() {
        return Err(": write the name in its ASCII form (`xn--…`)");
    }
    let label = |label: &str| {
        !label.is_empty()
            && label.len() <= 63
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
    };
    if name.len() > 253 || !name.split('.').all(label) {
        return Err(": that is no host name");
    }
    // Some resolvers take `0x7f.1` and `2130706433` for addresses, others for names.
    let last = name.rsplit('.').next().unwrap_or_default();
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let hexadecimal = last.strip_prefix("0x").or(last.strip_prefix("0X"));
    let hexadecimal = hexadecimal.is_some_and(|text| text.bytes().all(|b| b.is_ascii_hexdigit()));
    if (digits(last) || hexadecimal) && name.parse::<Ipv4Addr>().is_err() {
        return Err(": that ends like an IPv4 address and is none");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(text: &str) -> HostPort {
        HostPort::parse(text).expect(text)
    }

    fn pattern(text: &str) -> HostPattern<'_> {
        HostPattern::parse(text).expect(text)
    }

    #[test]
    fn a_pattern_matches_whole_names_and_ports() {
        for (written, host, expected) in [
            ("example.org:443", "example.org:443", true),
            ("example.org:443", "EXAMPLE.org:443", true),
            ("example.org:443", "example.org:80", false),
            ("example.org:443", "a.example.org:443", false),
            ("*.example.org:443", "a.example.org:443", true),
            ("*.example.org:443", "a.b.example.org:443", true),
            ("*.example.org:443", "example.org:443", false),
            ("*.example.org:443", "badexample.org:443", false),
            ("*.example.org:443", "a.example.org.evil:443", false),
            ("@python-index", "example.org:443", false),
        ] {
            assert_eq!(pattern(written).matches(&wanted(host)), expected, "{written} {host}");
        }
    }

    #[test]
    fn the_wider_patterns_are_those_of_the_domains_around() {
        let wider = |text| pattern(text).wider().collect::<Vec<_>>();
        assert_eq!(wider("a.b.example:443"), ["*.b.example:443", "*.example:443"]);
        assert_eq!(wider("*.b.example:443"), ["*.example:443"]);
        assert!(wider("localhost:443").is_empty());
        assert!(wider("@python-index").is_empty());
        for text in wider("a.b.example:443") {
            assert!(pattern(&text).matches(&wanted("a.b.example:443")), "{text}");
        }
    }

    #[test]
    fn a_host_that_could_be_read_in_two_ways_is_refused() {
        for text in [
            "example.org",
            "example.org:",
            "example.org:0",
            "example.org:65536",
            "example.org:+1",
            ":443",
            "example.org.:443",
            "a b:443",
            "user@example.org:443",
            "[::1]:443",
            "127.1:80",
            "0x7f.1:80",
            "2130706433:80",
            "1.2.3.4.5:80",
            "example.0x1f:80",
            "bücher.example:443",
            "exa\0mple.org:443",
            "https://example.org:443",
        ] {
            assert!(HostPort::parse(text).is_err(), "{text}");
        }
        insta::assert_snapshot!(HostPort::parse("127.1:80").expect_err("two ways"), @"must be `host:port`, not `127.1:80`: that ends like an IPv4 address and is none");
    }

    #[test]
    fn addresses_of_this_machine_and_of_private_networks_are_private() {
        for (host, expected) in [
            ("127.0.0.1:80", true),
            ("localhost:80", true),
            ("a.localhost:80", true),
            ("10.1.2.3:80", true),
            ("172.31.0.1:80", true),
            ("192.168.0.1:80", true),
            ("169.254.169.254:80", true),
            ("100.64.0.1:80", true),
            ("0.0.0.0:80", true),
            ("100.128.0.1:80", false),
            ("1.1.1.1:80", false),
            ("example.org:80", false),
        ] {
            assert_eq!(wanted(host).is_private(), expected, "{host}");
        }
    }
}
