"""A volume backend that keeps no data: every volume exists in Cinder's database only."""

from cinder.volume import driver

ROOM_GB = 100_000


class NullDriver(driver.VolumeDriver):
    VERSION = "1"
    CI_WIKI_NAME = "none"

    def do_setup(self, context):
        """Nothing to set up."""

    def check_for_setup_error(self):
        """Nothing that could be wrong."""

    def get_volume_stats(self, refresh=False):
        pool = {
            "pool_name": "null",
            "total_capacity_gb": ROOM_GB,
            "free_capacity_gb": ROOM_GB,
            "provisioned_capacity_gb": 0,
            "reserved_percentage": 0,
            "thin_provisioning_support": True,
            "thick_provisioning_support": False,
            "max_over_subscription_ratio": 100,
            "multiattach": True,
            "QoS_support": False,
        }
        return {
            "volume_backend_name": self.configuration.safe_get("volume_backend_name") or "null",
            "vendor_name": "lab",
            "driver_version": self.VERSION,
            "storage_protocol": "null",
            "pools": [pool],
        }

    def clone_image(self, context, volume, image_location, image_meta, image_service):
        return {}, True

    def initialize_connection(self, volume, connector, **more):
        return {"driver_volume_type": "fake", "data": {"volume_id": volume.id, "target_lun": 1}}

    def _nothing(self, *arguments, **more):
        return None

    create_volume = delete_volume = create_snapshot = delete_snapshot = _nothing
    create_volume_from_snapshot = create_cloned_volume = extend_volume = _nothing
    ensure_export = create_export = remove_export = _nothing
    copy_image_to_volume = copy_image_to_encrypted_volume = copy_volume_to_image = _nothing
    create_export_snapshot = remove_export_snapshot = terminate_connection = _nothing
    check_for_export = validate_connector = _nothing
