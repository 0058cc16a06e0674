package mlx5

import (
	"fmt"
	"strconv"
	"strings"
	"syscall"

	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/gid"
	"github.com/pureverbs/pureverbs/internal/kernel/uverbs"
	"github.com/pureverbs/pureverbs/internal/sysfs"
)

// noData is ENODATA of Linux, which other systems do not name.
const noData = syscall.Errno(61)

// QueryDevice returns the attributes of a device.
func (c queries) QueryDevice(a *abi.DeviceAttr) error {
	r, err := c.file.QueryDevice(true)
	if err != nil {
		return err
	}
	*a = deviceAttr(r)
	return nil
}

// deviceAttr returns the attributes as libibverbs has them: behind the version of the firmware as the kernel has them.
func deviceAttr(r *abi.UverbsQueryDeviceResp) (a abi.DeviceAttr) {
	const kernelVersion = 8 // bytes
	copy(uverbs.Bytes(&a)[len(a.FWVer):], uverbs.Bytes(r)[kernelVersion:])
	copy(a.FWVer[:len(a.FWVer)-1], fmt.Sprintf("%d.%d.%04d", r.FWVer>>32&0xffff, r.FWVer>>16&0xffff, r.FWVer&0xffff))
	return a
}

// QueryPort returns the attributes of a port.
func (c queries) QueryPort(port uint8, a *abi.PortAttr) error {
	r, err := c.file.QueryPort(port)
	if err != nil {
		return err
	}
	*a = r.LegacyResp.PortAttr()
	a.PortCapFlags2, a.ActiveSpeedEx = r.PortCapFlags2, r.ActiveSpeedEx
	return nil
}

// QueryGID returns a GID, which is zero if there is none at the index.
func (c queries) QueryGID(port uint8, index int, gid *abi.GID) error {
	e := new(abi.GIDEntry)
	err := c.QueryGIDEx(port, index, e)
	if err == noData {
		err = nil
	}
	if err == nil {
		*gid = e.GID
	}
	return err
}

// HasQueryGIDEx returns true.
func (v *Verbs) HasQueryGIDEx() bool { return true }

// QueryGIDEx returns an entry of the GID table. The error is ENODATA if it is empty.
func (c queries) QueryGIDEx(port uint8, index int, e *abi.GIDEntry) error {
	if index < 0 || int64(index) > 1<<32-1 {
		return syscall.EINVAL
	}
	err := c.file.QueryGIDEntry(uint32(port), uint32(index), e)
	if uverbs.Absent(err) || err == syscall.EOPNOTSUPP {
		var g sysfs.GIDEntry
		if g, err = c.sysfsGID(port, index); err == nil {
			*e = c.gidEntry(port, &g)
		}
	}
	return err
}

// QueryGIDTable fills entries with those of all ports that are not empty, and returns how many there are.
func (c queries) QueryGIDTable(entries []abi.GIDEntry) (int, error) {
	n, err := c.file.QueryGIDTable(entries)
	if uverbs.Absent(err) || err == syscall.EOPNOTSUPP {
		return c.sysfsGIDTable(entries)
	}
	return n, err
}

// gidEntry returns what sysfs says of a GID.
func (c queries) gidEntry(port uint8, g *sysfs.GIDEntry) abi.GIDEntry {
	return abi.GIDEntry{GID: abi.GID(g.GID), GIDIndex: uint32(g.Index), PortNum: uint32(port),
		GIDType: uint32(max(g.Type, gid.TypeIB)), NdevIfindex: netdevIndex(c.v.root, g.Netdev)}
}

// sysfsGID reads an entry of the GID table from sysfs.
func (c queries) sysfsGID(port uint8, index int) (sysfs.GIDEntry, error) {
	e := c.v.root.GIDEntry(c.dev.name, port, index)
	switch {
	case e.Err != nil:
		return e, syscall.EINVAL
	case e.GID.IsZero():
		return e, noData
	}
	return e, nil
}

func (c queries) sysfsGIDTable(entries []abi.GIDEntry) (n int, err error) {
	for port := 1; port <= int(c.info.NumPorts) && port <= 255; port++ {
		list, err := c.v.root.GIDs(c.dev.name, port)
		if err != nil {
			return 0, errnoOf(err)
		}
		for i := range list {
			if n == len(entries) {
				return 0, syscall.EINVAL
			}
			entries[n] = c.gidEntry(uint8(port), &list[i])
			n++
		}
	}
	return n, nil
}

// gidType returns the type of a GID. An empty entry has that of RoCE v1.
func (c queries) gidType(port, index uint8) (uint32, error) {
	e := new(abi.GIDEntry)
	err := c.QueryGIDEx(port, int(index), e)
	if err == noData {
		return abi.IBV_GID_TYPE_ROCE_V1, nil
	}
	return e.GIDType, err
}

// vlan returns the VLAN of a GID's netdev, 0xffff if it has none.
func (c queries) vlan(port, index uint8) uint16 {
	if dev := c.v.root.GIDEntry(c.dev.name, port, int(index)).Netdev; dev != "" {
		return vlanOf(dev)
	}
	return noVLAN
}

// QueryPKey returns a partition key.
func (c queries) QueryPKey(port uint8, index int) (uint16, error) {
	s, err := c.v.root.Attr("class", "infiniband", c.dev.name, "ports", strconv.Itoa(int(port)), "pkeys",
		strconv.Itoa(index))
	if err != nil {
		return 0, errnoOf(err)
	}
	n, err := strconv.ParseUint(strings.TrimSpace(s), 0, 16)
	if err != nil {
		return 0, syscall.EINVAL
	}
	return uint16(n), nil
}

// QueryDeviceEx returns more attributes of a device.
func (c queries) QueryDeviceEx(a *abi.DeviceAttrEx) error {
	d := new(abi.MLX5IBQueryDeviceResp)
	var out []byte
	if c.info.CmdsSuppUhw&abi.MLX5_USER_CMDS_SUPP_UHW_QUERY_DEVICE != 0 {
		out = uverbs.Bytes(d)
	}
	r, err := c.file.QueryDeviceEx(uverbs.Driver{Out: out})
	switch {
	case err == syscall.EOPNOTSUPP || err == syscall.ENOSYS:
		old, err := c.file.QueryDevice(true)
		if err != nil {
			return err
		}
		r = &abi.UverbsExQueryDeviceResp{Base: *old}
	case err != nil:
		return err
	}
	// What a kernel does not answer is zero.
	*a = abi.DeviceAttrEx{OrigAttr: deviceAttr(&r.Base), CompletionTimestampMask: r.TimestampMask,
		HCACoreClock: r.HCACoreClock, DeviceCapFlagsEx: r.DeviceCapFlagsEx, MaxWQTypeRQ: r.MaxWQTypeRQ,
		RawPacketCaps: r.RawPacketCaps, MaxDMSize: r.MaxDMSize, XRCODPCaps: r.XRCODPCaps, ODPCaps: r.ODPCaps,
		TSOCaps: d.TSOCaps}
	a.RSSCaps = abi.RSSCaps{SupportedQpts: r.RSSCaps.SupportedQPTs,
		MaxRwqIndirectionTables:    r.RSSCaps.MaxRWQIndirectionTables,
		MaxRwqIndirectionTableSize: r.RSSCaps.MaxRWQIndirectionTableSize,
		RxHashFieldsMask:           d.RSSCaps.RxHashFieldsMask, RxHashFunction: d.RSSCaps.RxHashFunction}
	copy(uverbs.Bytes(&a.PacketPacingCaps), uverbs.Bytes(&d.PacketPacingCaps))
	copy(uverbs.Bytes(&a.TMCaps), uverbs.Bytes(&r.TMCaps))
	a.CQModCaps = abi.CQModerationCaps{MaxCQCount: r.CQModerationCaps.MaxCQModerationCount,
		MaxCQPeriod: r.CQModerationCaps.MaxCQModerationPeriod}
	a.PhysPortCntEx = uint32(r.Base.PhysPortCnt)
	c.pciAtomics(a)
	return nil
}

// pciAtomics asks the firmware what atomics it has on the bus. Without DevX that stays unknown.
func (c queries) pciAtomics(a *abi.DeviceAttrEx) {
	const fetchAdd, swap, compareSwap = 0x280, 0x290, 0x2a0 // C: fetch_add_pci_atomic
	const eightBytes = 1 << 1                               // C: IBV_PCI_ATOMIC_OPERATION_8_BYTE_SIZE_SUP
	g := c.queryCaps(capsAtomic)
	word := func(at int) uint16 { return uint16(g.get(at, 16)) }
	p := abi.PciAtomicCaps{FetchAdd: word(fetchAdd), Swap: word(swap), CompareSwap: word(compareSwap)}
	a.PciAtomicCaps = p
	if a.OrigAttr.AtomicCap == abi.IBV_ATOMIC_HCA && p.FetchAdd&p.CompareSwap&eightBytes != 0 {
		a.OrigAttr.AtomicCap = abi.IBV_ATOMIC_GLOB
	}
}
