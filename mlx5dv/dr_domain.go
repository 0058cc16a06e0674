package mlx5dv

import (
	"fmt"
	"io"

	"github.com/pureverbs/pureverbs/ibv"
)

// DRDomain is the root of "direct rules", steering by tables that lead to each other. A frame begins in the
// table of level 0, the root table, whose matchers and rules are the kernel's, as those of FlowMatcher are. Tables of
// other levels are the program's own: libmlx5 writes them to memory of the device.
//
//	d, err := mlx5dv.CreateDRDomain(dev, mlx5dv.DRDomainNICRx)
//	t, err := d.CreateTable(0)
//	m, err := t.CreateMatcher(1, &mlx5dv.Match{Outer: mlx5dv.MatchHeaders{UDPDstPort: 0xffff}})
//	a, err := d.ToQP(qp)
//	r, err := m.CreateRule(&mlx5dv.Match{Outer: mlx5dv.MatchHeaders{UDPDstPort: 4789}}, a)
//
// Tables of a level above 0, and what needs them, are experimental: no adapter in this module's tests has them.
//
// It belongs to its Device. Close fails while it has tables or actions.
//
// C: struct mlx5dv_dr_domain, of libmlx5 v24.
type DRDomain struct{ node }

// explainDR returns an error with the requirements of a part of direct rules.
func explainDR(err error, dev *ibv.Device, what string) error {
	if why := withoutDevX(dev, err, what); why != nil {
		return why
	}
	return explainSteering(err, dev, what, -1)
}

// CreateDRDomain makes a domain. The device's port 1 must be one of Ethernet.
//
// C: mlx5dv_dr_domain_create(3).
func CreateDRDomain(dev *ibv.Device, typ DRDomainType) (*DRDomain, error) {
	c, d := begin(dev, "create dr domain"), new(DRDomain)
	return create(c, d, &d.node, "dr domain", func() (uintptr, error) {
		if typ > DRDomainFDB {
			return 0, &ibv.ArgError{Arg: "type", Got: typ.String(),
				Want: "DRDomainNICRx, DRDomainNICTx or DRDomainFDB"}
		}
		h, err := c.lib.DRDomainCreate(c.handle, uint32(typ))
		return h, explainDR(err, dev, "direct rules of "+typ.String())
	})
}

// Close destroys the domain.
//
// C: mlx5dv_dr_domain_destroy(3).
func (d *DRDomain) Close() error { return d.destroy(d.lib.DRDomainDestroy) }

// Sync waits until rules that were made are in effect. A domain that has the root table alone needs no
// Sync, and refuses it.
//
// C: mlx5dv_dr_domain_sync(3).
func (d *DRDomain) Sync(f DRSync) error {
	const op = "sync dr domain"
	if odd := f &^ (DRSyncSoftware | DRSyncHardware | DRSyncMemory); odd != 0 || f == 0 {
		return opError(op, d.name, &ibv.ArgError{Arg: "flags", Got: f.String(),
			Want: "DRSyncSoftware, DRSyncHardware and DRSyncMemory"})
	}
	return d.do(op, func() error {
		return explainDR(d.lib.DRDomainSync(d.handle, uint32(f)), d.dev, aboveRoot)
	})
}

// aboveRoot names a feature that many adapters lack.
const aboveRoot = "direct rules above level 0"

// do runs f while n is kept open.
func (n *node) do(op string, f func() error) error {
	if err := n.enter(op); err != nil {
		return err
	}
	defer n.leave()
	return opError(op, n.name, f())
}

// SetReclaimDeviceMemory sets whether the domain frees memory of the device that it does not use. At first it does not.
//
// Experimental: no device has run this. See docs/stability.md.
//
// C: mlx5dv_dr_domain_set_reclaim_device_memory(3), of libmlx5 v30.
func (d *DRDomain) SetReclaimDeviceMemory(enable bool) error {
	return d.do("set reclaim device memory", func() error {
		return explainDR(d.lib.DRDomainSetReclaimDeviceMemory(d.handle, enable), d.dev, "reclaiming device memory")
	})
}

// AllowDuplicateRules sets whether a table above level 0 may have two rules with the same matches. At first it may.
//
// Experimental: no device has run this. See docs/stability.md.
//
// C: mlx5dv_dr_domain_allow_duplicate_rules(3), of libmlx5 v36.
func (d *DRDomain) AllowDuplicateRules(allow bool) error {
	return d.do("allow duplicate rules", func() error {
		return explainDR(d.lib.DRDomainAllowDuplicateRules(d.handle, allow), d.dev, "refusing duplicate rules")
	})
}

// dump writes the library's description of an object to w.
func (n *node) dump(w io.Writer, get func() ([]byte, error)) error {
	return n.do("dump "+n.kind, func() error {
		b, err := get()
		if err != nil {
			return explainDR(err, n.dev, "dumps of direct rules")
		}
		if _, err := w.Write(b); err != nil {
			return fmt.Errorf("writing the dump: %w", err)
		}
		return nil
	})
}

// Dump writes the domain, its tables, and what is in them, in a format of libmlx5's own.
//
// C: mlx5dv_dump_dr_domain(3), of libmlx5 v28.
func (d *DRDomain) Dump(w io.Writer) error {
	return d.dump(w, func() ([]byte, error) { return d.lib.DumpDRDomain(d.handle) })
}
