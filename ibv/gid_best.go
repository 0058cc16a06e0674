package ibv

import (
	"fmt"
	"strings"

	"github.com/pureverbs/pureverbs/internal/gid"
	"github.com/pureverbs/pureverbs/internal/netview"
	"github.com/pureverbs/pureverbs/internal/sysfs"
)

// BestGID returns the entry of a port's GID table that a connection should use: the one that Endpoint
// chooses for the index BestGID, and that show_gids --best prints. An entry counts only if its network interface is in
// this network namespace and has its address. If none can be used, the error is ErrNotFound, and names the reason for
// each. Unlike Endpoint, it also accepts a port that is not active.
func (d *Device) BestGID(port uint8) (GIDEntry, error) {
	return d.BestGIDFunc(port, func(GIDEntry) bool { return true })
}

// BestGIDFunc is BestGID among the entries for which ok returns true, as those of one network interface, or of IPv6.
func (d *Device) BestGIDFunc(port uint8, ok func(GIDEntry) bool) (GIDEntry, error) {
	pa, err := d.QueryPort(port)
	if err != nil {
		return GIDEntry{}, err
	}
	return d.bestGID(port, pa, ok)
}

// Preconditions: nothing is entered.
func (d *Device) bestGID(port uint8, pa *PortAttr, ok func(GIDEntry) bool) (GIDEntry, error) {
	table, err := d.GIDTable()
	if err != nil {
		return GIDEntry{}, err
	}
	c, there := newGIDChoice(), 0
	for _, e := range table {
		if e.Port == port {
			there++
		}
		if e.Port == port && ok(e) {
			c.add(d.Name(), e, d.gidType(e.Type), pa.State.active())
		}
	}
	best := c.best()
	if best < 0 {
		return GIDEntry{}, &OpError{Op: "choose gid", Object: fmt.Sprintf("%s/%d", d.Name(), port), Err: ErrNotFound,
			Detail: c.why(there)}
	}
	return c.entries[best], nil
}

// gidType returns the type of the device's GIDs, which C does not have for iWARP and usNIC.
func (d *Device) gidType(t GIDType) gid.Type {
	switch d.info.NodeType {
	case NodeRNIC:
		return gid.TypeIWARP
	case NodeUSNIC, NodeUSNICUDP:
		return gid.TypeUSNIC
	}
	return gid.Type(t)
}

// gidChoice is a list of GIDs to choose from.
type gidChoice struct {
	root       sysfs.Root
	view       *netview.View
	devices    []string // by entry
	entries    []GIDEntry
	candidates []gid.Candidate
}

func newGIDChoice() *gidChoice {
	root := sysfs.DefaultRoot()
	return &gidChoice{root: root, view: netview.New(root)}
}

func (c *gidChoice) add(device string, e GIDEntry, typ gid.Type, active bool) {
	c.devices, c.entries = append(c.devices, device), append(c.entries, e)
	s := &sysfs.GIDEntry{Index: e.Index, GID: sysfs.GID(e.GID), Type: typ, Netdev: e.Netdev}
	c.candidates = append(c.candidates, c.view.Candidate(s, active))
}

// best returns the index of the best entry, -1 if none can be used.
func (c *gidChoice) best() int { return gid.Best(c.candidates) }

// why returns why each entry cannot be used. there is the number of entries in the table.
func (c *gidChoice) why(there int) string {
	const most = 8
	var b strings.Builder
	if there == 0 {
		return "the GID table is empty; " + gid.Fills
	}
	if one, same := c.oneReason(); same {
		return fmt.Sprintf("none of %d entries is usable: %s", len(c.entries), one)
	}
	fmt.Fprintf(&b, "none of %d entries is usable", len(c.entries))
	for i, e := range c.entries[:min(len(c.entries), most)] {
		fmt.Fprintf(&b, "; %d, %v: %s", e.Index, e.GID, gid.Unusable(c.candidates[i]))
	}
	if len(c.entries) > most {
		b.WriteString("; …")
	}
	return b.String()
}

// oneReason returns the reason why entries cannot be used, if all have the same.
func (c *gidChoice) oneReason() (why string, same bool) {
	for i := range c.candidates {
		if w := gid.Unusable(c.candidates[i]); i == 0 {
			why = w
		} else if w != why {
			return "", false
		}
	}
	return why, len(c.candidates) > 0
}
