package ibv

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/pureverbs/pureverbs/internal/abi"
)

// AHAttr is an address vector: how packets find their way to a peer.
//
// C: struct ibv_ah_attr.
type AHAttr struct {
	Port         uint8 // local port, from 1
	DLID         uint16
	SL           uint8
	SrcPathBits  uint8
	StaticRate   Rate // at most so much is sent; RateMax is what the port can
	Global       bool // the fields below count; always set on RoCE
	DGID         GID
	FlowLabel    uint32
	SGIDIndex    uint8
	HopLimit     uint8
	TrafficClass uint8
}

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

func (a *AHAttr) fromC(c *abi.AHAttr) {
	*a = AHAttr{
		Port:         c.PortNum,
		DLID:         c.DLID,
		SL:           c.SL,
		SrcPathBits:  c.SrcPathBits,
		StaticRate:   Rate(c.StaticRate),
		Global:       c.IsGlobal != 0,
		DGID:         GID(c.GRH.DGID),
		FlowLabel:    c.GRH.FlowLabel,
		SGIDIndex:    c.GRH.SGIDIndex,
		HopLimit:     c.GRH.HopLimit,
		TrafficClass: c.GRH.TrafficClass,
	}
}

// AH is an address handle, the way to a peer for UD sends.
//
// It belongs to its PD and is safe for concurrent use. Close it when no send
// that names it is outstanding.
//
// C: struct ibv_ah.
type AH struct {
	node
	pd     *PD
	handle uintptr
	av     uintptr // its address vector, for the direct data path
	attr   AHAttr
	users  atomic.Int32 // sends being posted with it; closedAH when closed
}

const closedAH = -1

// acquire keeps the handle valid while a send that names it is posted. It is
// not a node's enter, which may not be nested.
func (ah *AH) acquire() bool {
	for {
		n := ah.users.Load()
		if n == closedAH {
			return false
		}
		if ah.users.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

func (ah *AH) release() { ah.users.Add(-1) }

func (ah *AH) errClosed() error { return &OpError{Op: "use ah", Object: ah.name, Err: ErrClosed} }

// CreateAH makes an address handle. On RoCE the kernel resolves the peer's MAC
// address on the way, which can take seconds.
//
// C: ibv_create_ah(3).
func (pd *PD) CreateAH(attr *AHAttr) (*AH, error) {
	const op = "create ah"
	if attr == nil {
		return nil, &OpError{Op: op, Object: pd.dev.Name(), Err: &ArgError{Arg: "attr", Got: "nil", Want: "an address"}}
	}
	if err := attr.check(); err != nil {
		return nil, &OpError{Op: op, Object: pd.dev.Name(), Err: err}
	}
	if err := pd.enter(op); err != nil {
		return nil, err
	}
	defer pd.leave()
	c := attr.toC()
	h, err := pd.dev.v.createAH(pd.handle, &c)
	if err != nil {
		if n := pd.dev.attr.PhysPortCnt; attr.Port < 1 || attr.Port > n {
			err = &ArgError{Arg: "Port", Got: fmt.Sprint(attr.Port), Want: fmt.Sprintf("1 to %d", n)}
		} else if pathErrno(err) {
			err = pd.dev.explainPath(err, attr)
		}
		return nil, &OpError{Op: op, Object: pd.dev.Name(), Err: err}
	}
	ah := &AH{pd: pd, handle: h, attr: *attr}
	if pd.dev.directError() == nil {
		if ah.av, err = pd.dev.direct.dv.ah(h); err != nil {
			return nil, &OpError{Op: op, Object: pd.dev.Name(), Err: errors.Join(err, pd.dev.v.destroyAH(h))}
		}
	}
	ah.node.init("ah", pd.dev.Name(), &pd.node)
	watch(ah, &ah.node)
	return ah, nil
}

// Attr is the address.
func (ah *AH) Attr() AHAttr { return ah.attr }

// Close destroys the address handle.
//
// C: ibv_destroy_ah(3).
func (ah *AH) Close() error {
	return ah.node.close(func() error {
		for !ah.users.CompareAndSwap(0, closedAH) { // posting is short
			time.Sleep(50 * time.Microsecond)
		}
		if err := ah.pd.dev.v.destroyAH(ah.handle); err != nil {
			ah.users.Store(0)
			return err
		}
		return nil
	})
}
