"""The image of a tiny stemcell: an OVF description and one disk, in a tar file."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

DISK = "image-disk1.vmdk"
OVF = f"""<?xml version="1.0" encoding="UTF-8"?>
<Envelope xmlns="http://schemas.dmtf.org/ovf/envelope/1" xmlns:ovf="http://schemas.dmtf.org/ovf/envelope/1"
 xmlns:rasd="http://schemas.dmtf.org/wbem/wscim/1/cim-schema/2/CIM_ResourceAllocationSettingData"
 xmlns:vssd="http://schemas.dmtf.org/wbem/wscim/1/cim-schema/2/CIM_VirtualSystemSettingData">
 <References><File ovf:href="{DISK}" ovf:id="file1" ovf:size="5"/></References>
 <DiskSection><Info>Disks</Info>
  <Disk ovf:capacity="1" ovf:capacityAllocationUnits="byte * 2^30" ovf:diskId="vmdisk1" ovf:fileRef="file1"/>
 </DiskSection>
 <NetworkSection><Info>Networks</Info><Network ovf:name="VM Network"><Description/></Network></NetworkSection>
 <VirtualSystem ovf:id="vm"><Info>A VM</Info><Name>stemcell</Name>
  <OperatingSystemSection ovf:id="94"><Info>OS</Info></OperatingSystemSection>
  <VirtualHardwareSection><Info>Hardware</Info>
   <System><vssd:ElementName>Family</vssd:ElementName><vssd:InstanceID>0</vssd:InstanceID>
    <vssd:VirtualSystemType>vmx-13</vssd:VirtualSystemType></System>
   <Item><rasd:ElementName>cpu</rasd:ElementName><rasd:InstanceID>1</rasd:InstanceID>
    <rasd:ResourceType>3</rasd:ResourceType><rasd:VirtualQuantity>1</rasd:VirtualQuantity></Item>
   <Item><rasd:AllocationUnits>byte * 2^20</rasd:AllocationUnits><rasd:ElementName>ram</rasd:ElementName>
    <rasd:InstanceID>2</rasd:InstanceID><rasd:ResourceType>4</rasd:ResourceType>
    <rasd:VirtualQuantity>512</rasd:VirtualQuantity></Item>
   <Item><rasd:Address>0</rasd:Address><rasd:ElementName>scsi</rasd:ElementName><rasd:InstanceID>3</rasd:InstanceID>
    <rasd:ResourceSubType>lsilogic</rasd:ResourceSubType><rasd:ResourceType>6</rasd:ResourceType></Item>
   <Item><rasd:AddressOnParent>0</rasd:AddressOnParent><rasd:ElementName>disk</rasd:ElementName>
    <rasd:HostResource>ovf:/disk/vmdisk1</rasd:HostResource><rasd:InstanceID>4</rasd:InstanceID>
    <rasd:Parent>3</rasd:Parent><rasd:ResourceType>17</rasd:ResourceType></Item>
   <Item><rasd:AddressOnParent>7</rasd:AddressOnParent><rasd:Connection>VM Network</rasd:Connection>
    <rasd:ElementName>nic</rasd:ElementName><rasd:InstanceID>5</rasd:InstanceID>
    <rasd:ResourceSubType>VmxNet3</rasd:ResourceSubType><rasd:ResourceType>10</rasd:ResourceType></Item>
  </VirtualHardwareSection>
 </VirtualSystem>
</Envelope>
"""


def write_image(path: Path) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        for name, content in (("image.ovf", OVF.encode()), (DISK, b"image")):
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return path
