package ibv

import (
	"errors"
	"fmt"
	"syscall"
)

// StaleEndpointError reports that the result of Endpoint does not hold any more: the port's GID, LID or MTU has
// changed since, because its address moved, its link went down or a subnet manager assigned another LID. It unwraps to
// EADDRNOTAVAIL.
type StaleEndpointError struct {
	Device    string
	Port      uint8
	What      string // "GID 3", "LID" or "MTU"
	Told, Now string
}

func (e *StaleEndpointError) Error() string {
	return fmt.Sprintf("%s of %s port %d was %s when Endpoint returned it, and is %s now: call Endpoint again, and "+
		"send the result to the peer", e.What, e.Device, e.Port, e.Told, e.Now)
}

// Unwrap returns EADDRNOTAVAIL.
func (e *StaleEndpointError) Unwrap() error { return syscall.EADDRNOTAVAIL }

var errNoEndpoint = errors.New("call Endpoint first: it selects the port and the GID index")

// told returns what the peer was given.
func (c *connector) told(opt *ConnectOptions) (*Endpoint, error) {
	local := c.local
	if local == nil {
		return nil, errNoEndpoint
	}
	if opt.Local != nil {
		local = opt.Local
	}
	if local.PSN > max24 {
		return nil, &LimitError{What: "psn", Asked: uint64(local.PSN), Limit: max24, Where: "a 24-bit field"}
	}
	return local, nil
}

// peerType returns the type of the QPs that QPs of type t connect to.
func peerType(t QPType) QPType {
	switch t {
	case XRCSend:
		return XRCRecv
	case XRCRecv:
		return XRCSend
	}
	return t
}

// checkPeer reports what does not go together with the peer, if QPs of the type have one.
func (c *connector) checkPeer(local, peer *Endpoint, opt *ConnectOptions) error {
	qp := c.qp
	if qp.typ.datagrams() || qp.typ == RawPacket || qp.typ.isDC() {
		return nil
	}
	want := peerType(qp.typ)
	if peer.Type == 0 { // made by hand
		peer.Type = want
	}
	if err := peer.Validate(); err != nil {
		return fmt.Errorf("the peer's endpoint: %w", err)
	}
	if peer.Type != want {
		return &ArgError{Arg: "the peer's QP type", Got: peer.Type.String(), Want: want.String()}
	}
	sends := qp.typ == RC || qp.typ == XRCSend
	if most := peer.MaxDestRdAtomic; sends && most != 0 && opt.MaxRdAtomic > int(most) {
		return &LimitError{What: "MaxRdAtomic", Asked: uint64(opt.MaxRdAtomic), Limit: uint64(most),
			Where: "the peer's Endpoint, its MaxDestRdAtomic"}
	}
	if s := qp.loadState(); s == StateReset || s == StateInit {
		return c.checkTold(local, peer, opt)
	}
	return nil
}

// checkTold reports a change since Endpoint. The peer was given told.
// Preconditions: Endpoint was called, qp.conn.mu is held.
func (c *connector) checkTold(told, peer *Endpoint, opt *ConnectOptions) error {
	d := c.qp.dev
	pa, err := d.QueryPort(c.port)
	if err != nil {
		return err
	}
	stale := func(what string, told, now fmt.Stringer) error {
		return &StaleEndpointError{Device: d.Name(), Port: c.port, What: what, Told: told.String(),
			Now: now.String()}
	}
	av, _ := c.addressOf(peer, pa, opt) // an error is rtrAttr's to report: not all types need the peer's GID
	switch {
	case av.Global:
		if err := c.checkGID(told, peer, pa); err != nil {
			return err
		}
	case told.LID != 0 && told.LID>>pa.LMC != pa.LID>>pa.LMC:
		return stale("LID", lid(told.LID), lid(pa.LID))
	}
	// Both ends take the smaller of their MTUs, so both have to know the same two.
	theirs := told.MTU
	if peer.MTU != 0 {
		theirs = min(theirs, peer.MTU)
	}
	if opt.MTU == 0 && told.MTU != 0 && pa.ActiveMTU.Bytes() != 0 && pa.ActiveMTU < theirs {
		return stale("MTU", told.MTU, pa.ActiveMTU)
	}
	return nil
}

// checkGID reports a GID that has changed, or whose type differs from the peer's.
func (c *connector) checkGID(told, peer *Endpoint, pa *PortAttr) error {
	d := c.qp.dev
	gid, typ := told.GID, told.GIDType
	if gid.IsZero() { // made by hand
		gid, typ = c.local.GID, c.local.GIDType
	}
	now, nowType, err := d.gidOf(c.port, c.sgid, pa.LinkLayer)
	if err != nil {
		return err
	}
	what := fmt.Sprintf("GID %d", c.sgid)
	if now != gid || typ != 0 && nowType != 0 && nowType != typ {
		e := &StaleEndpointError{Device: d.Name(), Port: c.port, What: what, Told: gid.String(),
			Now: now.String()}
		switch {
		case now.IsZero():
			e.Now = "an empty entry"
		case now == gid:
			e.Told, e.Now = e.Told+", "+typ.String(), e.Now+", "+nowType.String()
		}
		return e
	}
	if nowType != 0 && peer.GIDType != 0 && peer.GIDType != nowType {
		return &ArgError{Arg: "the type of the peer's GID", Got: peer.GIDType.String(),
			Want: fmt.Sprintf("%v, as %s of %s port %d: give Endpoint an index of the same type on both sides",
				nowType, what, d.Name(), c.port)}
	}
	return nil
}

// gidOf returns an entry of the GID table, and its type on RoCE. The type is 0 if it is not known.
func (d *Device) gidOf(port uint8, index int, l LinkLayer) (GID, GIDType, error) {
	gid, err := d.QueryGID(port, index)
	if err != nil || gid.IsZero() || l != LinkEthernet {
		return gid, 0, err
	}
	e, err := d.QueryGIDEntry(port, index)
	if err != nil || e.GID != gid { // it has just changed, or the library does not report it
		return gid, 0, nil
	}
	return gid, e.Type, nil
}

// lid is a local identifier.
type lid uint16

func (l lid) String() string { return fmt.Sprintf("%#04x", uint16(l)) }
