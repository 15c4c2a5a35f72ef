//! The list of devices.
//!
//! Pure. Between two pieces, only the resource and the ID of the last device are kept, and no copy
//! of a plugin's devices: a plugin may list 65,536 of them, replace them at any time, and have many
//! readers. So a device that is listed from beginning to end occurs once, and none occurs twice.

use super::{Piece, Place, Turn, begin_list, respond, send};
use crate::api::connection::Connection;
use crate::api::json;
use crate::api::response::{ContentType, Response, Status};
use crate::api::view::View;
use crate::handler::device::DevicePlugin;

/// A list of the devices of each resource, as its current plugin lists them.
#[derive(Debug)]
pub(in crate::api) struct Devices {
    /// The resource that is being read; empty before the first one.
    resource: String,
    /// Whether no other resource is wanted.
    is_only: bool,
    /// The ID of the last device of the resource that was rendered.
    last: Option<String>,
    place: Place,
}

impl Devices {
    /// Creates a list of the devices of one resource, or of all.
    pub(super) fn new(resource: Option<String>) -> Self {
        Self {
            is_only: resource.is_some(),
            resource: resource.unwrap_or_default(),
            last: None,
            place: Place::Before,
        }
    }

    pub(super) fn advance(
        &mut self,
        connection: &mut Connection,
        view: &View<'_>,
        turn: &mut Turn,
    ) -> bool {
        if self.place == Place::Before {
            let plugins = view.inventory.map(|known| &known.device_plugins);
            let exists = plugins.is_some_and(|it| it.get(&self.resource).is_some());
            if self.is_only && !exists {
                let missing = Response::error(Status::NotFound, "no such resource");
                return respond(connection, &missing, view, turn);
            }
            if !connection.begin_body(ContentType::Json, view.now) {
                return true;
            }
            self.place = Place::Start;
        }
        send(connection, view, turn, &mut |piece| {
            self.render(view, piece)
        })
    }

    fn render(&mut self, view: &View<'_>, piece: &mut Piece<'_>) -> bool {
        if self.place == Place::Start {
            self.place = Place::First;
            begin_list("DeviceList", view, piece);
        }
        let plugins = view.inventory.map(|known| &known.device_plugins);
        let mut current = plugins.and_then(|it| it.get(&self.resource));
        while !piece.is_full() {
            if let Some(plugin) = &current {
                if !self.render_devices(plugin, piece) {
                    return false;
                }
            }
            current = plugins.and_then(|it| it.after(&self.resource));
            let Some(next) = current.as_ref().filter(|_| !self.is_only) else {
                piece.out.extend_from_slice(b"]}\n");
                return true;
            };
            self.resource.clone_from(&next.plugin.name);
            self.last = None;
            piece.turn.examine(1);
        }
        false
    }

    /// Renders the devices of a plugin after the last one. Returns whether none is left.
    fn render_devices(&mut self, plugin: &DevicePlugin, piece: &mut Piece<'_>) -> bool {
        let mut last = None;
        let mut is_full = false;
        for device in plugin.devices.after(self.last.as_deref()) {
            is_full = piece.is_full();
            if is_full {
                break;
            }
            if self.place == Place::Items {
                piece.out.push(b',');
            }
            self.place = Place::Items;
            json::device(&mut piece.json(), &plugin.plugin, device);
            piece.turn.examine(1);
            last = Some(&device.id);
        }
        if let Some(id) = last {
            self.last = Some(id.to_string());
        }
        !is_full
    }
}
