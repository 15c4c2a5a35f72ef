//! Converts a [`Request`] to a [`Call`], or to the response that refuses it.
//!
//! The paths and their parameters are a table. A request is refused for the first of these reasons
//! that applies: the path is unknown, the path does not allow the method, a parameter is invalid,
//! the path does not have a parameter of that name.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::path::PathBuf;
use std::str;
use std::time::Duration;

use super::request::{Method, Request, bad_request};
use super::response::{Response, Status};
use crate::escape;
use crate::handler::device::Wish;
use crate::manager::State;

/// What a client requests with a path and parameters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Call {
    /// The records of all sockets, or of those that match all given values.
    Plugins {
        /// The plugin's type.
        kind: Option<String>,
        /// The plugin's name.
        name: Option<String>,
        /// The state.
        state: Option<State>,
    },
    /// The devices of device plugins and DRA drivers.
    Devices {
        /// The name of the resource or of the DRA driver; `None` for all.
        name: Option<String>,
    },
    /// The state of the daemon.
    Status,
    /// The events that are kept.
    Events {
        /// Only the events with a higher generation.
        since: Option<u64>,
        /// Whether later events are sent as well.
        follow: bool,
    },
    /// The records and their changes.
    Watch {
        /// Only the changes with a higher generation.
        since: Option<u64>,
    },
    /// The metrics.
    Metrics,
    /// Whether the daemon runs.
    Live,
    /// Whether the daemon is ready: see [`View::not_ready`](super::View::not_ready).
    Ready,
    /// A change, for which a client needs [`Access::Change`](super::Access::Change), or
    /// [`Access::Allocate`](super::Access::Allocate) to be granted devices.
    Change(Change),
}

/// A change that a client requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// Reset the backoff of these sockets, and retry them at once.
    Retry(Selection),
    /// Read every directory again.
    Rescan,
    /// Log with this filter until the filter is changed again.
    Log(String),
    /// Read the configuration again.
    Reload,
    /// Grant devices to the client until its connection ends.
    Allocate(Wish),
    /// Deregister a plugin that is down.
    Forget {
        /// The plugin's type.
        kind: String,
        /// The plugin's name.
        name: String,
    },
}

/// A selection of sockets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Selection {
    /// Every socket.
    All,
    /// The socket with this path.
    Socket(PathBuf),
    /// The sockets of one plugin.
    Plugin {
        /// The plugin's type.
        kind: String,
        /// The plugin's name.
        name: String,
    },
}

/// Returns the call that a request makes, or the response that refuses the request.
pub fn route(request: &Request) -> Result<Call, Response> {
    let target = &*request.target;
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    let pairs = pairs.map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    let mut query = Query(pairs.collect());
    let plugin = path.strip_prefix(PLUGIN);
    let plugin = plugin.and_then(|rest| rest.split_once('/'));
    let call = match plugin {
        Some((kind, name)) if !kind.is_empty() && !name.is_empty() => {
            check_method(GET, request.method)?;
            Call::Plugins {
                kind: Some(decode_text(kind, "the type")?),
                name: Some(decode_text(name, "the name")?),
                state: None,
            }
        }
        _ => {
            let route = ROUTES.iter().find(|(_, of, _)| *of == path);
            let Some((methods, _, call)) = route else {
                return Err(Response::error(Status::NOT_FOUND, "no such path"));
            };
            check_method(methods, request.method)?;
            call(&mut query)?
        }
    };
    query.check_all_used().map(|()| call)
}

/// The methods that a path allows, the path, and the function that returns its call.
type Route = (
    &'static str,
    &'static str,
    fn(&mut Query<'_>) -> Result<Call, Response>,
);

const GET: &str = "GET, HEAD";
const POST: &str = "POST";

const ROUTES: [Route; 14] = [
    (GET, "/v1/plugins", |query| {
        Ok(Call::Plugins {
            kind: query.take_text("type")?,
            name: None,
            state: query.take_parsed("state", "is not a state", State::parse)?,
        })
    }),
    (GET, "/v1/devices", |query| {
        let name = query.take_text("name")?;
        Ok(Call::Devices { name })
    }),
    (GET, "/v1/status", |_| Ok(Call::Status)),
    (GET, "/v1/events", |query| {
        Ok(Call::Events {
            since: query.take_since()?,
            follow: query
                .take_parsed("follow", "is neither 0 nor 1", parse_flag)?
                .unwrap_or(false),
        })
    }),
    (GET, "/v1/watch", |query| {
        let since = query.take_since()?;
        Ok(Call::Watch { since })
    }),
    (GET, "/metrics", |_| Ok(Call::Metrics)),
    (GET, "/livez", |_| Ok(Call::Live)),
    (GET, "/readyz", |_| Ok(Call::Ready)),
    (POST, "/v1/retry", |query| {
        Ok(Call::Change(Change::Retry(query.take_selection()?)))
    }),
    (POST, "/v1/rescan", |_| Ok(Call::Change(Change::Rescan))),
    (POST, "/v1/reload", |_| Ok(Call::Change(Change::Reload))),
    (POST, "/v1/log", |query| {
        let filter = query.take_parsed("filter", "is not UTF-8", |text| Some(text.to_owned()))?;
        let filter = filter.ok_or_else(|| invalid_parameter("filter", "is missing"))?;
        Ok(Call::Change(Change::Log(filter)))
    }),
    (POST, "/v1/allocate", |query| {
        Ok(Call::Change(Change::Allocate(query.take_wish()?)))
    }),
    (POST, "/v1/forget", |query| {
        Ok(Call::Change(Change::Forget {
            kind: query.take_required("type")?,
            name: query.take_required("name")?,
        }))
    }),
];

/// The beginning of the path of one plugin, before the type and the name of the plugin.
const PLUGIN: &str = "/v1/plugins/";

/// Refuses a method that a path does not allow.
fn check_method(methods: &'static str, method: Method) -> Result<(), Response> {
    let is_allowed = match method {
        Method::Get | Method::Head => methods == GET,
        Method::Post => methods == POST,
        Method::Other => false,
    };
    if is_allowed {
        return Ok(());
    }
    let mut refused = Response::error(
        Status::METHOD_NOT_ALLOWED,
        "method not allowed for this path",
    );
    refused.allow = Some(methods);
    Err(refused)
}

/// The parameters of a request that have not been used yet, still percent-encoded.
struct Query<'a>(Vec<(&'a str, &'a str)>);

impl Query<'_> {
    /// Refuses a parameter that was not used, because the path does not have it.
    fn check_all_used(&self) -> Result<(), Response> {
        let Some((name, _)) = self.0.first() else {
            return Ok(());
        };
        let name = escape::text(name).at_most(64);
        Err(bad_request(&format!("unknown parameter {name}")))
    }

    /// Removes the parameters that select sockets; returns the selection, which is all sockets if
    /// there are none.
    fn take_selection(&mut self) -> Result<Selection, Response> {
        let path = self.take("socket")?;
        let (kind, name) = (self.take_text("type")?, self.take_text("name")?);
        match (path, kind, name) {
            (None, None, None) => Ok(Selection::All),
            (None, Some(kind), Some(name)) => Ok(Selection::Plugin { kind, name }),
            (None, None, _) => Err(invalid_parameter("type", "is missing")),
            (None, _, None) => Err(invalid_parameter("name", "is missing")),
            (Some(path), None, None) if !path.is_empty() => {
                Ok(Selection::Socket(OsString::from_vec(path).into()))
            }
            (Some(_), ..) => Err(bad_request(
                "give either the parameter socket, or type and name",
            )),
        }
    }

    /// Removes the parameters of an allocation, of which `resource` (`RESOURCE` or `RESOURCE=N`)
    /// and `device` may be repeated; returns the devices that are requested.
    fn take_wish(&mut self) -> Result<Wish, Response> {
        let (resources, devices) = (self.take_all("resource")?, self.take_all("device")?);
        let wait = self.take_parsed("wait", "is not a number", |text| text.parse().ok())?;
        let wish = Wish::parse(&resources, devices, wait.map(Duration::from_millis));
        wish.map_err(|why| bad_request(&format!("parameter {why}")))
    }

    /// Removes all parameters with a name. Returns their values.
    fn take_all(&mut self, name: &str) -> Result<Vec<String>, Response> {
        let is_meant = |(other, _): &(&str, &str)| *other == name;
        let (found, rest) = self.0.drain(..).partition::<Vec<_>, _>(is_meant);
        self.0 = rest;
        let values = found.into_iter().map(|(_, value)| decode_text(value, name));
        values.collect()
    }

    /// Removes a parameter. Returns its value, if there is one.
    fn take(&mut self, name: &str) -> Result<Option<Vec<u8>>, Response> {
        let Some(at) = self.0.iter().position(|(other, _)| *other == name) else {
            return Ok(None);
        };
        let (_, value) = self.0.remove(at);
        if self.0.iter().any(|(other, _)| *other == name) {
            return Err(invalid_parameter(name, "is repeated"));
        }
        let value = percent_decode(value);
        value
            .map(Some)
            .ok_or_else(|| invalid_parameter(name, "is not percent-encoded"))
    }

    /// Removes a parameter and parses it; `wrong` is the error for a value that cannot be parsed.
    fn take_parsed<T>(
        &mut self,
        name: &str,
        wrong: &str,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Result<Option<T>, Response> {
        let Some(value) = self.take(name)? else {
            return Ok(None);
        };
        let parsed = str::from_utf8(&value).ok().and_then(parse);
        parsed
            .map(Some)
            .ok_or_else(|| invalid_parameter(name, wrong))
    }

    /// Removes a parameter whose value is text. Returns the value, if there is one.
    fn take_text(&mut self, name: &str) -> Result<Option<String>, Response> {
        let not_empty = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        self.take_parsed(name, "is empty or not UTF-8", not_empty)
    }

    /// Removes a required parameter whose value is text. Returns the value.
    fn take_required(&mut self, name: &str) -> Result<String, Response> {
        self.take_text(name)?
            .ok_or_else(|| invalid_parameter(name, "is missing"))
    }

    /// Removes the parameter `since`: the generation after which events or changes are requested.
    fn take_since(&mut self) -> Result<Option<u64>, Response> {
        self.take_parsed("since", "is not a number", |text| text.parse().ok())
    }
}

/// Parses a parameter that is 0 or 1.
fn parse_flag(text: &str) -> Option<bool> {
    match text {
        "0" => Some(false),
        "1" => Some(true),
        _ => None,
    }
}

/// Decodes percent-encoded text; `what` names the text in an error.
fn decode_text(part: &str, what: &str) -> Result<String, Response> {
    let decoded = percent_decode(part).and_then(|decoded| String::from_utf8(decoded).ok());
    decoded.ok_or_else(|| bad_request(&format!("{what} is not percent-encoded UTF-8")))
}

/// Decodes percent-encoded octets (RFC 3986 §2.1), or returns `None` if a percent sign is not
/// followed by two hexadecimal digits. A plus sign stands for itself.
fn percent_decode(encoded: &str) -> Option<Vec<u8>> {
    let mut decoded = Vec::with_capacity(encoded.len());
    let mut octets = encoded.bytes();
    while let Some(octet) = octets.next() {
        decoded.push(match octet {
            b'%' => (hex_value(octets.next()?)? << 4) | hex_value(octets.next()?)?,
            _ => octet,
        });
    }
    Some(decoded)
}

/// Returns the value of a hexadecimal digit.
fn hex_value(octet: u8) -> Option<u8> {
    char::from(octet).to_digit(16)?.try_into().ok()
}

fn invalid_parameter(parameter: &str, why: &str) -> Response {
    bad_request(&format!("parameter {parameter} {why}"))
}

#[cfg(test)]
mod tests;
