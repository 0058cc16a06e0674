package ibv

import (
	"errors"
	"fmt"

	"github.com/pureverbs/pureverbs/internal/abi"
)

// GRHRequired reports whether every address on the port must have a GRH (AHAttr.Global): always on RoCE, and on
// InfiniBand if the port shares its LID, as that of a VF does.
//
// C: IBV_QPF_GRH_REQUIRED of ibv_port_attr.flags.
func (a *PortAttr) GRHRequired() bool {
	return a.LinkLayer == LinkEthernet || a.Flags&abi.IBV_QPF_GRH_REQUIRED != 0
}

// active reports whether the port carries traffic.
func (s PortState) active() bool { return s == PortActive || s == PortActiveDefer }

// RateGbps returns the data rate of the port in Gb/s over all lanes, 0 if it is unknown. Of a bond it is that of one of
// the bond's ports.
func (a *PortAttr) RateGbps() float64 { return portRate(a.ActiveSpeed, a.ActiveWidth) }

// Rate returns the rate, as in "400 Gb/s (4X NDR)".
func (a *PortAttr) Rate() string { return portRateString(a.ActiveSpeed, a.ActiveWidth) }

// QueryPort returns the state of a port. Ports are numbered from 1.
//
// C: ibv_query_port(3).
func (d *Device) QueryPort(port uint8) (*PortAttr, error) {
	const op = "query port"
	if err := d.enter(op); err != nil {
		return nil, err
	}
	defer d.leave()
	if err := d.checkPort(op, port); err != nil {
		return nil, err
	}
	a := new(abi.PortAttr)
	if err := d.v.QueryPort(d.handle, port, a); err != nil {
		return nil, &OpError{Op: op, Object: fmt.Sprintf("%s/%d", d.Name(), port), Err: err}
	}
	p := portAttrFromC(a)
	if a.ActiveSpeedEx != 0 {
		p.ActiveSpeed = a.ActiveSpeedEx
	}
	return p, nil
}

// checkPort refuses a port that the device does not have.
func (d *Device) checkPort(op string, port uint8) error {
	if port < 1 || port > d.attr.PhysPortCnt {
		return &OpError{Op: op, Object: d.Name(), Err: &ArgError{Arg: "port", Got: fmt.Sprint(port),
			Want: fmt.Sprintf("1 to %d", d.attr.PhysPortCnt)}}
	}
	return nil
}

// index returns an index into a table of a port, with the size of that table as its limit.
// Preconditions: the Device is entered.
func (d *Device) index(what string, port uint8, index int) limit {
	l := limit{what, index, -1}
	a := new(abi.PortAttr)
	if err := d.v.QueryPort(d.handle, port, a); err == nil {
		l.most = int(a.GIDTblLen) - 1
		if what == pkeyEntry {
			l.most = int(a.PKeyTblLen) - 1
		}
	}
	return l
}

const (
	gidEntry  = "gid index"
	pkeyEntry = "pkey index"
)

// onIndex reads an entry of a table by read, and returns why it could not be read: the device does not have the port,
// or the number is not a valid index, or the table has no such entry.
func (d *Device) onIndex(op, what string, port uint8, index int, read func() error) error {
	if err := d.enter(op); err != nil {
		return err
	}
	defer d.leave()
	if err := d.checkPort(op, port); err != nil {
		return err
	}
	where := fmt.Sprintf("%s/%d", d.Name(), port)
	if index < 0 || index > mostInt {
		return opError(op, where, fitInt(where, d.index(what, port, index)))
	}
	err := read()
	if err == nil {
		return nil
	}
	// For a missing entry the errno is EINVAL, or ENOENT for a file in sysfs.
	if l := d.index(what, port, index); l.asked > l.most && l.most >= 0 {
		err = errors.Join(l.error(where), err)
	}
	return &OpError{Op: op, Object: where, Err: err, Detail: fmt.Sprintf("index %d", index)}
}

// QueryPKey reads an entry of the partition key table.
//
// C: ibv_query_pkey(3).
func (d *Device) QueryPKey(port uint8, index int) (k uint16, err error) {
	err = d.onIndex("query pkey", pkeyEntry, port, index, func() (err error) {
		k, err = d.v.QueryPKey(d.handle, port, index)
		return err
	})
	return k, err
}

// PKeyIndex returns the index of a partition key in the table of a port. The membership bit
// (0x8000) is significant.
//
// C: ibv_get_pkey_index(3).
func (d *Device) PKeyIndex(port uint8, pkey uint16) (int, error) {
	a, err := d.QueryPort(port)
	if err != nil {
		return 0, err
	}
	for i := range a.PKeyTableLen {
		if k, err := d.QueryPKey(port, i); err == nil && k == pkey {
			return i, nil
		}
	}
	return 0, &OpError{Op: "find pkey", Object: fmt.Sprintf("%s/%d", d.Name(), port), Err: ErrNotFound,
		Detail: fmt.Sprintf("%#04x is in none of %d entries", pkey, a.PKeyTableLen)}
}

// anyServiceLevel are the bits of a service level.
const anyServiceLevel = 0xf

// readServiceLevels returns the mask of the service levels of completions. Where mlx5 has the service level on
// InfiniBand, it has the type of the packet on Ethernet. libmlx5 takes no notice. The kernel's driver does, and checks
// port 1 alone, as is done here (Linux, drivers/infiniband/hw/mlx5/cq.c, handle_responder).
func (d *Device) readServiceLevels() (*uint8, error) {
	mask := uint8(anyServiceLevel)
	if !d.isMLX5() {
		return &mask, nil
	}
	a := new(abi.PortAttr)
	if err := d.v.QueryPort(d.handle, 1, a); err != nil {
		return nil, err
	}
	if LinkLayer(a.LinkLayer) == LinkEthernet {
		mask = 0
	}
	return &mask, nil
}
