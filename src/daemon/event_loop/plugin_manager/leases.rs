//! Devices that are granted to clients of the API, for as long as these are connected.

use super::PluginManager;
use crate::api::{ClientId, Response, Status};
use crate::handler::device::{self, Holder, Refusal, Wish};
use crate::time::Time;

impl PluginManager {
    /// Passes a client's request for devices on to the built-in handler of device plugins, or
    /// refuses the request if that handler is not in use.
    pub(super) fn request_devices(&mut self, client: ClientId, wish: Wish, now: Time) {
        let (pid, uid) = self.api.peer(client).unwrap_or_default();
        if let Some(inventory) = &self.api.inventory {
            let leases = inventory.leases.clone();
            leases.add_request(client.0, Holder { pid, uid }, wish, now);
            if self.wake_device_handler(now) {
                return;
            }
            leases.remove_client(client.0);
        }
        let why = "the plugin manager has no devices to grant";
        let refused = Response::error(Status::NOT_FOUND, why);
        self.api.server.answer_change(client, &refused, now);
    }

    /// Responds to the clients that were granted or refused devices.
    pub(super) fn answer_device_requests(&mut self, now: Time) {
        let inventory = self.api.inventory.iter();
        for (client, outcome) in inventory.flat_map(|it| it.leases.take_outcomes()) {
            let client = ClientId(client);
            let (status, why) = match outcome {
                Ok(devices) => {
                    self.api.server.answer_allocation(client, &devices, now);
                    continue;
                }
                Err(Refusal::Missing(why)) => (Status::NOT_FOUND, why),
                Err(Refusal::Busy(why)) => (Status::CONFLICT, why),
                Err(Refusal::Failed(why)) => (Status::BAD_GATEWAY, why),
            };
            let refused = Response::error(status, &why);
            self.api.server.answer_change(client, &refused, now);
        }
    }

    /// Makes the handler of device plugins grant the devices that are requested and free. Returns
    /// `false` if that handler does not exist.
    pub(super) fn wake_device_handler(&mut self, now: Time) -> bool {
        let is_awake = self.manager.wake_handler(device::TYPE, now);
        self.drain_and_release_locks(now);
        is_awake
    }
}
