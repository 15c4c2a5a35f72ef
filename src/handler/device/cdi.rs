//! Devices in the Container Device Interface (CDI), which container runtimes read: names, files,
//! and the calls of `Allocate` that say what each device consists of.
//!
//! A resource `VENDOR/CLASS` has one file, `plugind-VENDOR-CLASS.json`, with the healthy devices of
//! its current plugin. The plugin is asked about one device after another, and the file is replaced
//! once all were asked; a device that cannot be used any more is taken out at once.
//!
//! ```text
//!   list ------> asks about the next device <-------+
//!                  |  answered, or refused          | a pause after the last one,
//!                  +---------> file --------------->+ if any was refused
//! ```

use std::fmt::Write as _;
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::allocation::{self, Allocation};
use super::devices::Device;
use super::inventory::DevicePlugin;
use crate::budget::{OverBudget, Reserved};
use crate::config::{ALLOCATE_RETRY, ALLOCATE_TIMEOUT};
use crate::escape;
use crate::handler::{Call, CallFailure, Context, EffectId, EventType, Plugin};
use crate::proto::v1beta1::device_plugin;

/// The files that are to be replaced, or removed. Clones share the same files.
#[derive(Clone, Debug, Default)]
pub struct CdiFiles(Arc<Mutex<Changes>>);

/// The names of the files that have changed, and their contents; `None`: the file is to be removed.
pub(crate) type Changed = Vec<(String, Option<String>)>;

#[derive(Debug, Default)]
struct Changes {
    /// Whether there is a directory for the files.
    is_on: bool,
    changed: Changed,
}

impl CdiFiles {
    /// Makes the files from now on: there is a directory for them.
    pub(crate) fn enable(&self) {
        self.lock().is_on = true;
    }

    /// Removes and returns the files that have changed since the last call.
    pub(crate) fn take(&self) -> Changed {
        mem::take(&mut self.lock().changed)
    }

    /// Returns whether any file has changed since.
    pub(crate) fn is_any_changed(&self) -> bool {
        !self.lock().changed.is_empty()
    }

    pub(super) fn is_on(&self) -> bool {
        self.lock().is_on
    }

    /// Replaces a file, or removes it.
    pub(super) fn set(&self, name: String, content: Option<String>) {
        let mut changes = self.lock();
        if changes.is_on {
            changes.changed.retain(|(changed, _)| *changed != name);
            changes.changed.push((name, content));
        }
    }

    fn lock(&self) -> MutexGuard<'_, Changes> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The devices of one plugin, as files show them.
#[derive(Debug, Default)]
pub(super) struct Published {
    /// What the plugin has answered for each device that it has listed since; `None`: it refused.
    /// Sorted by device.
    answers: Vec<(Box<str>, Option<CdiDevice>)>,
    /// The open call, and its device.
    call: Option<(EffectId, Box<str>)>,
    /// The last device that was asked about; those behind it are next.
    last: Option<Box<str>>,
    /// The timer after which refused devices are asked about again, while it runs.
    retry: Option<EffectId>,
    pause: Option<Duration>,
    /// Whether there are answers that the file does not have.
    is_stale: bool,
    /// Whether a warning was logged, and a device may be missing since.
    is_warned: bool,
    /// The memory that the answers take.
    reserved: Reserved,
    octets: usize,
}

/// A device as written to its file.
#[derive(Debug)]
pub(super) struct CdiDevice {
    json: String,
    /// The version of the interface that it needs.
    version: &'static str,
}

impl Published {
    pub(super) fn new(context: &Context<'_>) -> Self {
        Self {
            reserved: context.reserve(),
            ..Self::default()
        }
    }

    /// Replaces the file after the devices or their health have changed, and asks about those that
    /// are new.
    pub(super) fn listed(
        &mut self,
        known: &DevicePlugin,
        files: &CdiFiles,
        context: &mut Context<'_>,
    ) {
        self.answers.retain(|(id, answer)| {
            let is_listed = known.devices.get(id).is_some();
            if !is_listed {
                self.octets -= answer.as_ref().map_or(0, CdiDevice::len);
            }
            is_listed
        });
        self.last = None;
        self.write(known, files);
        self.advance(known, files, context);
    }

    /// Handles the end of a call or of the pause. Returns whether it was one of these.
    pub(super) fn ended(
        &mut self,
        effect: EffectId,
        result: Option<Result<Vec<u8>, CallFailure>>,
        plugin: &Arc<Plugin>,
        context: &mut Context<'_>,
    ) -> bool {
        if self.retry.take_if(|timer| *timer == effect).is_some() {
            self.answers.retain(|(_, answer)| answer.is_some());
            self.last = None;
            return true;
        }
        let Some((_, id)) = self.call.take_if(|(call, _)| *call == effect) else {
            return false;
        };
        let answer = match result {
            Some(Ok(reply)) => Allocation::from_reply(&reply),
            Some(Err(failure)) => Err(failure.to_string()),
            None => return true,
        };
        let answer = answer.and_then(|answer| self.device(&id, &answer));
        if let (Err(why), false) = (&answer, self.is_warned) {
            self.is_warned = true;
            let id = escape::text(&id).at_most(SHOWN_ID);
            let message = format!(
                "containers cannot be given some of its devices, asking again: Allocate of {id}: {}",
                escape::composed(why.as_bytes())
            );
            context.emit(plugin, EventType::Warning, "AllocateFailed", message);
        }
        self.is_stale |= answer.is_ok();
        let (Ok(at) | Err(at)) = self.position(&id); // Without an answer, the plugin is asked.
        self.answers.insert(at, (id, answer.ok()));
        true
    }

    /// Returns the position of the answer for a device, or the one that it would have.
    fn position(&self, id: &str) -> Result<usize, usize> {
        self.answers.binary_search_by(|(it, _)| (**it).cmp(id))
    }

    /// Returns the device of an answer, if there is memory for it.
    fn device(&mut self, id: &str, answer: &Allocation) -> Result<CdiDevice, String> {
        let device = CdiDevice::new(&device_name(id), answer);
        let octets = self.octets + device.len();
        let is_granted = self.reserved.resize(octets);
        is_granted.map_err(|OverBudget| OverBudget.to_string())?;
        self.octets = octets;
        Ok(device)
    }

    /// Asks about the next device. After the last one, replaces the file, and waits if any was
    /// refused.
    pub(super) fn advance(
        &mut self,
        known: &DevicePlugin,
        files: &CdiFiles,
        context: &mut Context<'_>,
    ) {
        if self.call.is_some() || !files.is_on() {
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
        let is_asked = |it: &Device| self.last.as_ref().is_some_and(|last| it.id <= *last);
        let asked = known.devices.partition_point(is_asked);
        let mut behind = known.devices[asked..].iter();
        let next = behind.find(|it| it.is_healthy && self.position(&it.id).is_err());
        if let Some(device) = next {
            let call = context.call(Call {
                endpoint: plugin.endpoint.clone(),
                method: device_plugin::ALLOCATE,
                request: allocation::request([&*device.id].into_iter()),
                timeout: ALLOCATE_TIMEOUT,
                wait_for_ready: false,
            });
            self.last = Some(device.id.clone());
            self.call = Some((call, device.id.clone()));
            return;
        }
        if self.is_stale {
            self.write(known, files);
        }
        let is_any_refused = self.answers.iter().any(|(_, answer)| answer.is_none());
        if !is_any_refused {
            (self.pause, self.is_warned) = (None, false);
        } else if self.retry.is_none() {
            let pause = ALLOCATE_RETRY.after(self.pause);
            self.pause = Some(pause);
            self.retry = Some(context.set_timer(pause));
        }
    }

    fn write(&mut self, known: &DevicePlugin, files: &CdiFiles) {
        if !files.is_on() {
            return;
        }
        self.is_stale = false;
        let usable = known.devices.iter().filter(|device| device.is_healthy);
        let answers = usable.filter_map(|device| self.position(&device.id).ok());
        let usable = answers.filter_map(|at| self.answers[at].1.as_ref());
        let name = &known.plugin.name;
        files.set(file_name(name), document(name, usable));
    }
}

impl CdiDevice {
    fn new(name: &str, allocation: &Allocation) -> Self {
        Self {
            json: if allocation.has_no_edits() {
                String::new() // CDI does not allow such a device.
            } else {
                allocation.cdi_device(name).to_string()
            },
            version: if allocation.has_annotations() {
                WITH_ANNOTATIONS
            } else {
                USUAL
            },
        }
    }

    fn len(&self) -> usize {
        self.json.len()
    }
}

/// Returns the file for what a client holds of a resource: its name, its content, and the fully
/// qualified name of its only device. `None` if the allocation needs none.
pub(super) fn lease(
    resource: &str,
    client: u64,
    allocation: &Allocation,
) -> Option<(String, String, String)> {
    let name = format!("{LEASE}{client}");
    let device = CdiDevice::new(&name, allocation);
    let content = document(resource, [device].iter()).filter(|_| is_kind(resource))?;
    let qualified = format!("{resource}={name}");
    Some((lease_file(resource, client), content, qualified))
}

/// Returns the name of that file, which no file of a resource has.
pub(super) fn lease_file(resource: &str, client: u64) -> String {
    let file = file_name(resource);
    let stem = file.strip_suffix(".json").unwrap_or(&file);
    format!("{stem}-lease-{client}.json")
}

/// Returns the file of a resource with these devices; `None` if there are none.
fn document<'a>(kind: &str, devices: impl Iterator<Item = &'a CdiDevice>) -> Option<String> {
    let mut version = match kind.split_once('/') {
        Some((_, class)) if class.contains('.') => WITH_ANNOTATIONS, // And with dots.
        _ => USUAL,
    };
    let mut list = String::new();
    for device in devices.filter(|device| device.len() > 0) {
        let comma = if list.is_empty() { "" } else { ",\n" };
        list = list + comma + &device.json;
        version = version.max(device.version);
    }
    let head = format!("{{\"cdiVersion\":\"{version}\",\"kind\":\"{kind}\",\"devices\":[\n");
    (!list.is_empty()).then(|| head + &list + "\n]}\n")
}

/// Returns the name of the file of a resource. Hyphens in it are doubled, so that no two resources
/// have the same.
pub(super) fn file_name(resource: &str) -> String {
    let resource = resource.replace('-', "--").replace('/', "-");
    format!("plugind-{resource}.json")
}

/// Returns the name of a device with this ID. A valid name stands for itself. In any other, `x.` is
/// in front, and each octet that is not valid, and `_`, is `_` and two hexadecimal digits: so no
/// two IDs have the same name.
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
        name.push('x'); // `x.` is not a name, and no other ID is `x.x`.
    }
    name
}

/// Returns whether a resource is a kind of CDI: both parts of its name begin with a letter.
fn is_kind(resource: &str) -> bool {
    resource
        .split('/')
        .all(|part| part.starts_with(|it: char| it.is_ascii_alphabetic()))
}

/// Returns whether a text is the fully qualified name of a device, `VENDOR/CLASS=NAME`.
pub(super) fn is_qualified_name(text: &str) -> bool {
    let parts = text.split_once('=');
    let parts = parts.and_then(|(kind, name)| Some((kind.split_once('/')?, name)));
    parts.is_some_and(|((vendor, class), name)| {
        is_kind(&[vendor, "/", class].concat())
            && [vendor, class]
                .iter()
                .all(|it| is_name(it) && !it.contains(':'))
            && is_name(name)
    })
}

/// Returns whether a text is a name of CDI: it begins and ends with a letter or a digit, and
/// may contain `_`, `-`, `.` and `:`.
fn is_name(text: &str) -> bool {
    let is_plain = |it: char| it.is_ascii_alphanumeric();
    text.starts_with(is_plain)
        && text.ends_with(is_plain)
        && text.chars().all(|it| is_plain(it) || "_-.:".contains(it))
}

/// The beginning of names that are encoded.
const ENCODED: &str = "x.";

/// The beginning of the names of devices that are made for one client: no ID is encoded so.
const LEASE: &str = "x.lease-";

/// The version of CDI that most files need: also old runtimes know it.
const USUAL: &str = "0.5.0";

/// The first version with annotations, and with dots in a class.
const WITH_ANNOTATIONS: &str = "0.6.0";

/// The number of octets of a device ID that are shown: a UUID and some room.
const SHOWN_ID: usize = 64;

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
        assert_eq!(lease_file("a-b/c", 7), "plugind-a--b-c-lease-7.json");
        assert_eq!(file_name("a-b/c-lease-7"), "plugind-a--b-c--lease--7.json");
        for id in ["lease-7", "x.lease-7", "-lease-7"] {
            assert_ne!(device_name(id), "x.lease-7");
        }
        assert_eq!(lease("a/b", 7, &Allocation::default()), None);
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
        let device = |version| CdiDevice {
            json: "{}".to_owned(),
            version,
        };
        let version = |kind: &str, devices: &[CdiDevice]| {
            let document = document(kind, devices.iter())?;
            let document: serde_json::Value = serde_json::from_str(&document).unwrap();
            assert_eq!(document["kind"], kind);
            assert_eq!(document["devices"].as_array().unwrap().len(), devices.len());
            Some(document["cdiVersion"].as_str().unwrap().to_owned())
        };
        assert_eq!(version("a/b", &[]), None);
        assert_eq!(version("a/b", &[device(USUAL)]).as_deref(), Some("0.5.0"));
        let both = [device(WITH_ANNOTATIONS), device(USUAL)];
        assert_eq!(version("a/b", &both).as_deref(), Some("0.6.0"));
        assert_eq!(version("a/b.c", &both[1..]).as_deref(), Some("0.6.0"));
        let nothing = CdiDevice::new("a", &Allocation::default());
        assert_eq!(document("a/b", [nothing].iter()), None);
    }
}
