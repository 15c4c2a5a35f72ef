//! Devices in the Container Device Interface (CDI), whose files container runtimes read: names,
//! files, and the calls of `Allocate` that return what a container needs to use each device.
//!
//! A resource `VENDOR/CLASS` has one file, `plugind-VENDOR-CLASS.json`, with the healthy devices of
//! its current plugin. `Allocate` is called for one device after another, and the file is replaced
//! after the last call; a device that cannot be used any more is removed from the file at once.
//! Each client that holds devices of a resource has another file ([`add_lease_file`]).
//!
//! ```text
//!   list ------> asks about the next device <-------+
//!                  |  after the last one            | a pause, if any device
//!                  +---------> file --------------->+ has no valid answer
//! ```

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::mem;
use std::sync::Arc;
use std::time::Duration;

use super::allocation::{self, Allocation};
use super::changes::SHOWN_ID;
use super::inventory::DevicePlugin;
use crate::budget::{OverBudget, Reserved};
use crate::config::{ALLOCATE_RETRY, CALL_TIMEOUT};
use crate::escape;
use crate::handler::{Call, CallFailure, Context, EffectId, EventType, Plugin};
use crate::proto::v1beta1::device_plugin;
use crate::time::Time;

/// The names of the files that have changed, and their new contents; `None`: remove the file.
pub(crate) type CdiFiles = BTreeMap<String, Option<String>>;

/// The state of the CDI file of one plugin.
#[derive(Debug, Default)]
pub(super) struct Published {
    /// The plugin's answer for each device that is still listed: the text for the file, which is
    /// empty if the device needs nothing; `None`: no valid answer.
    answers: BTreeMap<Box<str>, Option<String>>,
    /// The open call, and its device.
    call: Option<(EffectId, Box<str>)>,
    /// The number of devices, from the start of the list, that were examined.
    examined: usize,
    /// The time at which `Allocate` is called again for the devices without a valid answer. A timer
    /// wakes the handler then.
    retry_at: Option<Time>,
    pause: Option<Duration>,
    /// Whether there are answers that the file does not contain.
    is_stale: bool,
    /// Whether a warning was logged since all devices last had a valid answer.
    is_warned: bool,
    /// The part of the memory budget that the answers take.
    reserved: Reserved,
}

impl Published {
    pub(super) fn new(context: &Context<'_>) -> Self {
        Self {
            reserved: context.reserve(),
            ..Self::default()
        }
    }

    /// Replaces the file after the devices or their health have changed.
    /// [`Published::ask_about_next_device`] asks the plugin about the new devices.
    pub(super) fn handle_list(&mut self, known: &DevicePlugin, files: &mut CdiFiles) {
        self.answers.retain(|id, _| known.devices.get(id).is_some());
        self.examined = 0;
        self.replace_file(known, files);
    }

    /// Handles the end of a call.
    pub(super) fn handle_reply(
        &mut self,
        call: EffectId,
        result: Result<Vec<u8>, CallFailure>,
        plugin: &Arc<Plugin>,
        context: &mut Context<'_>,
    ) {
        let Some((_, id)) = self.call.take_if(|(open, _)| *open == call) else {
            return;
        };
        let reply = result.map_err(|failure| failure.to_string());
        let answer = reply.and_then(|reply| self.render_reply(&id, &reply));
        if let (Err(why), false) = (&answer, self.is_warned) {
            self.is_warned = true;
            let id = escape::text(&id).at_most(SHOWN_ID);
            let message = format!(
                "containers cannot be given some of its devices, asking again: Allocate of {id}: {}",
                escape::composed_text(why.as_bytes())
            );
            context.emit(plugin, EventType::Warning, "AllocateFailed", message);
        }
        self.is_stale |= answer.is_ok();
        self.answers.insert(id, answer.ok());
    }

    /// Returns the text for the file from a reply, or the reason why the reply is invalid or the
    /// memory budget has no room for the text.
    fn render_reply(&mut self, id: &str, reply: &[u8]) -> Result<String, String> {
        let device = Allocation::from_reply(reply)?.cdi_device(&device_name(id));
        let device = device.map_or_else(String::new, |device| device.to_string());
        let others: usize = self.answers.values().flatten().map(String::len).sum();
        let is_granted = self.reserved.resize(others + device.len());
        is_granted.map_err(|OverBudget| OverBudget.to_string())?;
        Ok(device)
    }

    /// Asks the plugin about the next device. After the last one, replaces the file if there are
    /// new answers, and starts a pause if any device has no valid answer.
    pub(super) fn ask_about_next_device(
        &mut self,
        known: &DevicePlugin,
        files: &mut CdiFiles,
        context: &mut Context<'_>,
    ) {
        if self.retry_at.take_if(|at| *at <= context.now()).is_some() {
            self.answers.retain(|_, answer| answer.is_some());
            self.examined = 0;
        }
        if self.call.is_some() {
            return;
        }
        let plugin = &known.plugin;
        if !is_kind(&plugin.name) {
            if !mem::replace(&mut self.is_warned, true) {
                let message = "containers cannot be given its devices: a part of the resource's \
                               name does not begin with a letter, as CDI requires";
                context.emit(plugin, EventType::Warning, "AllocateFailed", message.into());
            }
            return;
        }
        let mut behind = known.devices.iter().enumerate().skip(self.examined);
        let next = behind.find(|(_, it)| it.is_healthy && !self.answers.contains_key(&it.id));
        if let Some((at, device)) = next {
            let call = context.call(Call {
                endpoint: plugin.endpoint.clone(),
                method: device_plugin::ALLOCATE,
                request: allocation::encode_request(vec![device.id.to_string()]),
                timeout: CALL_TIMEOUT,
                wait_for_ready: false,
            });
            self.examined = at + 1;
            self.call = Some((call, device.id.clone()));
            return;
        }
        if self.is_stale {
            self.replace_file(known, files);
        }
        if self.answers.values().all(Option::is_some) {
            (self.pause, self.is_warned) = (None, false);
        } else if self.retry_at.is_none() {
            let pause = ALLOCATE_RETRY.next_pause(self.pause);
            self.pause = Some(pause);
            self.retry_at = Some(context.now() + pause);
            context.set_timer(pause);
        }
    }

    /// Queues the new contents of the file: the answers for the healthy devices.
    fn replace_file(&mut self, known: &DevicePlugin, files: &mut CdiFiles) {
        self.is_stale = false;
        let usable = known.devices.iter().filter(|device| device.is_healthy);
        let usable = usable.filter_map(|device| self.answers.get(&device.id)?.as_deref());
        let name = &known.plugin.name;
        files.insert(file_name(name), file_contents(name, usable));
    }
}

/// Adds a file with the devices that a client holds of a resource, as one CDI device. Returns the
/// fully qualified name of that device, or `None` if CDI cannot express it.
pub(super) fn add_lease_file(
    files: &mut CdiFiles,
    resource: &str,
    client: u64,
    allocation: &Allocation,
) -> Option<String> {
    let name = format!("{LEASE}{client}");
    let device = allocation.cdi_device(&name)?.to_string();
    if !is_kind(resource) {
        return None;
    }
    let content = file_contents(resource, [&*device].into_iter());
    files.insert(lease_file_name(resource, client), content);
    Some(format!("{resource}={name}"))
}

/// Returns the name of the file for a client, which differs from those of all resources.
pub(super) fn lease_file_name(resource: &str, client: u64) -> String {
    file_name(&format!("{resource}/lease/{client}"))
}

/// Returns whether a file is that of a client for some resource, whose own hyphens are doubled.
pub(crate) fn is_lease_file(name: &str, client: u64) -> bool {
    name.ends_with(&format!("-lease-{client}.json"))
}

/// Returns the contents of a file with these devices of a resource, each as JSON; `None` if there
/// are none. A device whose text is empty needs no entry.
fn file_contents<'a>(kind: &str, devices: impl Iterator<Item = &'a str>) -> Option<String> {
    let devices = devices.filter(|device| !device.is_empty());
    let devices = devices.collect::<Vec<_>>().join(",\n");
    let mut class = kind.split('/').skip(1);
    // Quotation marks in a plugin's texts are escaped, so this finds only the key.
    let version = if class.any(|it| it.contains('.')) || devices.contains("\"annotations\":") {
        WITH_ANNOTATIONS
    } else {
        USUAL
    };
    let head = format!("{{\"cdiVersion\":\"{version}\",\"kind\":\"{kind}\",\"devices\":[\n");
    (!devices.is_empty()).then(|| head + &devices + "\n]}\n")
}

/// Returns the CDI file name of a resource. Its hyphens are doubled, so that no two resources share
/// a file.
pub(super) fn file_name(resource: &str) -> String {
    let resource = resource.replace('-', "--").replace('/', "-");
    format!("plugind-{resource}.json")
}

/// Returns the CDI name of a device with this ID: the ID itself, if it is a valid name that does
/// not begin with `x.`. Any other ID is encoded, so that no two have the same name: `x.` is put in
/// front, and each invalid octet and each `_` becomes `_` and two hexadecimal digits.
pub(super) fn device_name(id: &str) -> String {
    if is_name(id) && !id.starts_with(ENCODED) {
        return id.to_owned();
    }
    let mut name = ENCODED.to_owned();
    let last = id.len().saturating_sub(1);
    for (at, octet) in id.bytes().enumerate() {
        if octet.is_ascii_alphanumeric() || at < last && b"-.:".contains(&octet) {
            name.push(char::from(octet));
        } else {
            let _ = write!(name, "_{octet:02X}");
        }
    }
    if id.is_empty() {
        name.push('x'); // `x.` is not a valid name, and no other ID is encoded as `x.x`.
    }
    name
}

/// Returns whether a resource name is a valid CDI kind: both of its parts begin with a letter.
fn is_kind(resource: &str) -> bool {
    resource
        .split('/')
        .all(|part| part.starts_with(|it: char| it.is_ascii_alphabetic()))
}

/// Returns whether a text is the fully qualified CDI name of a device, `VENDOR/CLASS=NAME`.
pub(super) fn is_qualified_name(text: &str) -> bool {
    let (kind, name) = text.split_once('=').unwrap_or((text, ""));
    let (vendor, class) = kind.split_once('/').unwrap_or((kind, ""));
    let is_part = |part| is_name(part) && !part.contains(':');
    is_kind(kind) && is_part(vendor) && is_part(class) && is_name(name)
}

/// Returns whether a text is a valid CDI name: it begins and ends with a letter or a digit, and may
/// also contain `_`, `-`, `.` and `:`.
fn is_name(text: &str) -> bool {
    let is_plain = |it: char| it.is_ascii_alphanumeric();
    text.starts_with(is_plain)
        && text.ends_with(is_plain)
        && text.chars().all(|it| is_plain(it) || "_-.:".contains(it))
}

/// The prefix of encoded names.
const ENCODED: &str = "x.";

/// The prefix of the CDI name for the devices of one client, before the client's number. No device
/// ID has such a name.
const LEASE: &str = "x.lease-";

/// The CDI version of most files, which old container runtimes know, too.
const USUAL: &str = "0.5.0";

/// The first CDI version with annotations, and with dots in a class.
const WITH_ANNOTATIONS: &str = "0.6.0";

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_device_has_its_id_as_its_name_or_an_encoded_one() {
        for (id, name) in [
            ("device-0", "device-0"),
            ("GPU-1::0", "GPU-1::0"),
            ("a_b.c", "a_b.c"),
            ("/dev/a_b", "x._2Fdev_2Fa_5Fb"),
            ("größe", "x.gr_C3_B6_C3_9Fe"),
            ("a-", "x.a_2D"),
            ("-a", "x.-a"),
            ("x.a", "x.x.a"),
            ("", "x.x"),
        ] {
            assert_eq!(device_name(id), name);
            assert!(is_name(name), "{name}");
        }
    }

    #[test]
    fn no_two_ids_have_the_same_name() {
        let characters = ["", "a", "x", ".", "x.", "_", "-", ":", "2", "F", "/", "ö"];
        let mut ids = BTreeSet::new();
        for one in characters {
            for two in characters {
                for three in characters {
                    ids.extend(characters.map(|four| [one, two, three, four].concat()));
                }
            }
        }
        let names: BTreeSet<String> = ids.iter().map(|id| device_name(id)).collect();
        assert_eq!(names.len(), ids.len());
        assert!(names.iter().all(|name| is_name(name)));
    }

    #[test]
    fn a_lease_has_a_file_and_a_device_that_no_resource_has() {
        assert_eq!(lease_file_name("a-b/c", 7), "plugind-a--b-c-lease-7.json");
        assert_eq!(file_name("a-b/c-lease-7"), "plugind-a--b-c--lease--7.json");
        for id in ["lease-7", "x.lease-7", "-lease-7"] {
            assert_ne!(device_name(id), "x.lease-7");
        }
        let added = add_lease_file(&mut CdiFiles::new(), "a/b", 7, &Allocation::default());
        assert_eq!(added, None);
    }

    #[test]
    fn no_two_resources_have_the_same_file() {
        for (resource, file) in [
            ("nvidia.com/gpu", "plugind-nvidia.com-gpu.json"),
            ("a-b/c", "plugind-a--b-c.json"),
            ("a/b-c", "plugind-a-b--c.json"),
        ] {
            assert_eq!(file_name(resource), file);
        }
    }

    #[test]
    fn a_qualified_name_has_a_vendor_a_class_and_a_name() {
        for name in ["nvidia.com/gpu=all", "a/b_c=0:1", "a/b=0"] {
            assert!(is_qualified_name(name), "{name}");
        }
        for name in [
            "", "a/b", "a/b=", "a=b", "/b=c", "a/=c", "1/b=c", "a/2=c", "a:b/c=d", "a/b=c d",
            "a/b/c=d", "a/b=-",
        ] {
            assert!(!is_qualified_name(name), "{name}");
        }
    }

    #[test]
    fn a_file_names_the_lowest_version_that_it_needs() {
        let usual = r#"{"name":"\"annotations\":"}"#;
        let annotated = r#"{"annotations":{"a":"b"}}"#;
        let version = |kind: &str, devices: &[&str]| {
            let document = file_contents(kind, devices.iter().copied())?;
            let document: serde_json::Value = serde_json::from_str(&document).unwrap();
            assert_eq!(document["kind"], kind);
            assert_eq!(document["devices"].as_array().unwrap().len(), devices.len());
            Some(document["cdiVersion"].as_str().unwrap().to_owned())
        };
        assert_eq!(version("a/b", &[]), None);
        assert_eq!(version("a/b", &[usual]).as_deref(), Some("0.5.0"));
        let both = [annotated, usual];
        assert_eq!(version("a/b", &both).as_deref(), Some("0.6.0"));
        assert_eq!(version("a/b.c", &both[1..]).as_deref(), Some("0.6.0"));
        assert_eq!(file_contents("a/b", ["", ""].into_iter()), None);
    }
}
