package ibv

import (
	"errors"
	"fmt"

	"github.com/pureverbs/pureverbs/internal/abi"
)

func (a *AHAttr) toC() abi.AHAttr {
	c := abi.AHAttr{
		DLID:        a.DLID,
		SL:          a.SL,
		SrcPathBits: a.SrcPathBits,
		StaticRate:  uint8(a.StaticRate),
		PortNum:     a.Port,
	}
	if a.Global {
		c.IsGlobal = 1
		c.GRH = abi.GlobalRoute{
			DGID:         abi.GID(a.DGID),
			FlowLabel:    a.FlowLabel,
			SGIDIndex:    a.SGIDIndex,
			HopLimit:     a.HopLimit,
			TrafficClass: a.TrafficClass,
		}
	}
	return c
}

// AH is an address handle: the path to a peer for UD sends.
//
// It belongs to its PD and is safe for concurrent use. Close it only when no send that names it
// is outstanding.
//
// C: struct ibv_ah.
type AH struct {
	node
	pd     *PD
	handle uintptr
	av     uintptr // address vector, for the direct data path; libmlx5 owns it
	attr   AHAttr
}

// acquire keeps the handle valid while a send that names it is posted. It never waits: the
// sender holds a lock and may already have acquired the same AH.
func (ah *AH) acquire() bool { return ah.life.TryEnter() }

func (ah *AH) release() { ah.life.Leave() }

func (ah *AH) errClosed() error { return ah.node.errClosed("use ah") }

// CreateAH makes an address handle. On RoCE the kernel resolves the peer's MAC address first,
// which can take seconds.
//
// C: ibv_create_ah(3).
func (pd *PD) CreateAH(attr *AHAttr) (*AH, error) {
	const op = "create ah"
	d := pd.dev
	if attr == nil {
		return nil, opError(op, d.Name(), &ArgError{Arg: "attr", Got: "nil", Want: "an address"})
	}
	if err := errors.Join(attr.check(), d.checkPathBits(attr)); err != nil {
		return nil, opError(op, d.Name(), err)
	}
	ah := &AH{pd: pd, attr: *attr}
	return create(op, d.Name(), "ah", ah, &ah.node, func() (err error) {
		if err := d.checkServiceLevel(attr); err != nil {
			return err
		}
		c := attr.toC()
		if ah.handle, err = d.v.CreateAH(pd.handle, &c); err != nil {
			if bad := d.badAddress("", attr); pathErrno(err) && bad != nil {
				err = errors.Join(bad...)
			} else if pathErrno(err) {
				err = d.explainPath(err, attr)
			}
			return d.usedUp(err, "AHs", d.attr.MaxAH)
		}
		if d.directError() == nil {
			if ah.av, err = d.direct.dv.InitAH(ah.handle); err != nil {
				err = errors.Join(err, d.v.DestroyAH(ah.handle))
			}
		}
		return err
	}, &pd.node)
}

// checkPathBits refuses a source LID that the port does not have. Devices take it, and its packets are lost.
func (d *Device) checkPathBits(a *AHAttr) error {
	if a.SrcPathBits == 0 {
		return nil
	}
	p, err := d.QueryPort(a.Port)
	if err != nil || p.LinkLayer == LinkEthernet || a.SrcPathBits>>p.LMC == 0 {
		return nil // what is wrong otherwise is for the device to say
	}
	return &LimitError{What: "src_path_bits", Asked: uint64(a.SrcPathBits), Limit: 1<<p.LMC - 1,
		Where: fmt.Sprintf("%s port %d (PortAttr.LMC %d)", d.Name(), a.Port, p.LMC)}
}

// badAddress returns the fields of an address that was refused which no address on this device has. prefix is where
// they are.
func (d *Device) badAddress(prefix string, a *AHAttr) (errs []error) {
	if n := d.attr.PhysPortCnt; a.Port < 1 || a.Port > n {
		return []error{&ArgError{Arg: prefix + "Port", Got: fmt.Sprint(a.Port), Want: fmt.Sprintf("1 to %d", n)}}
	}
	if !a.Global {
		if p, err := d.QueryPort(a.Port); err == nil && p.GRHRequired() {
			want := "true on RoCE, where DGID and SGIDIndex are the address"
			if p.LinkLayer != LinkEthernet {
				want = fmt.Sprintf("true, with DGID and SGIDIndex: port %d of %s requires a GRH", a.Port, d.Name())
			}
			errs = append(errs, &ArgError{Arg: prefix + "Global", Got: "false", Want: want})
		}
	}
	if a.StaticRate != RateMax && a.StaticRate.Mbps() == 0 {
		errs = append(errs, &ArgError{Arg: prefix + "StaticRate", Got: a.StaticRate.String(),
			Want: "RateMax or a constant of type Rate"})
	}
	return errs
}

// PD returns the protection domain of the address.
func (ah *AH) PD() *PD { return ah.pd }

// Attr returns the address.
func (ah *AH) Attr() AHAttr { return ah.attr }

// Close destroys the address handle.
//
// C: ibv_destroy_ah(3).
func (ah *AH) Close() error {
	return ah.node.close(func() error { return ah.pd.dev.v.DestroyAH(ah.handle) })
}
