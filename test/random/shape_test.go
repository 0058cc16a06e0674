//go:build linux

package random

import (
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/pureverbs/pureverbs/ibv"
)

// bed describes the devices that the programs run on.
type bed struct {
	emulated bool // the ConnectX; SoftRoCE if not
	unbound  bool // windows cannot be bound on this data path
	masked   bool // atomics with masks can be posted on this data path
	mtu      int
	offers   [2]offer // the kinds of memory of the two devices
	wire     bool     // one thread, one doorbell at a time, addresses that are the same in every run
}

// program is a random program, as its seed determines it.
type program struct {
	bed
	seed   uint64
	rounds int
	groups []*group
	shared bool // the groups without channel and thread domain have one CQ at each end
}

// group is a set of connections. One goroutine drives all first ends, another all second ends.
type group struct {
	num    int
	links  []*link
	srqWR  int // receives in the SRQ, 0 for none
	srqSGE int
	slot   int        // of the SRQ's buffers
	srqMem [2]memKind // at each end
	split  bool       // receive completions have a CQ of their own
	sleep  bool       // waits by event
	single bool       // a thread domain and no locks
	shared bool
}

// link is the shape of a connection; both ends are alike. The memory of an end has an area for receives and three
// others: data to send, results of reads and atomics, and memory that the peer may access.
type link struct {
	num     int
	typ     ibv.QPType
	opt     ibv.QPOptions
	srq     bool
	area    int
	slot    int // of a receive buffer
	slots   int
	rnrZero bool
	mem     [2]memKind // at each end
	lends   ibv.MWType // of the window that the peer gets in place of the memory; 0 for none
	binds   bool       // and binds another one again and again
	streams uint8      // of the DCIs, a base-2 logarithm
	key     [2]uint64  // of the DCTs
}

func (l *link) sink() int   { return l.area }
func (l *link) target() int { return 2 * l.area }
func (l *link) recv() int   { return 3 * l.area }
func (l *link) size() int   { return 3*l.area + l.slot*l.slots }

func (l *link) String() string {
	return fmt.Sprintf("%d:%v sq %d×%d inline %d rq %d×%d of %d area %d srq %v all %v rnr0 %v lends %d binds %v "+
		"streams %d memory %v", l.num, l.typ, l.opt.MaxSendWR, l.opt.MaxSendSGE, l.opt.MaxInline, l.slots,
		l.opt.MaxRecvSGE, l.slot, l.area, l.srq, l.opt.SignalAll, l.rnrZero, l.lends, l.binds, l.streams, l.mem)
}

func (p *program) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d: %d rounds", p.seed, p.rounds)
	for _, g := range p.groups {
		fmt.Fprintf(&b, "\n group %d: srq %d×%d of %v split %v sleep %v single %v shared %v", g.num, g.srqWR, g.srqSGE,
			g.srqMem, g.split, g.sleep, g.single, g.shared)
		for _, l := range g.links {
			fmt.Fprintf(&b, "\n  %v", l)
		}
	}
	return b.String()
}

// qps is the number of queue pairs.
func (p *program) qps() (n int) {
	for _, g := range p.groups {
		n += 2 * len(g.links)
	}
	return n
}

func pick[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }
func one(r *rand.Rand, in int) bool       { return r.IntN(in) == 0 }

// sendOps are the operations of a transport that programs use. QPs created with them post by ibv_wr_* on the ops path.
var sendOps = map[ibv.QPType]ibv.SendOps{
	ibv.RC: ibv.SendOpWrite | ibv.SendOpWriteImm | ibv.SendOpSend | ibv.SendOpSendImm | ibv.SendOpSendInv |
		ibv.SendOpRead | ibv.SendOpCompareSwap | ibv.SendOpFetchAdd,
	ibv.UC: ibv.SendOpWrite | ibv.SendOpWriteImm | ibv.SendOpSend | ibv.SendOpSendImm,
	ibv.UD: ibv.SendOpSend | ibv.SendOpSendImm,
	ibv.XRCSend: ibv.SendOpWrite | ibv.SendOpWriteImm | ibv.SendOpSend | ibv.SendOpSendImm | ibv.SendOpRead |
		ibv.SendOpCompareSwap | ibv.SendOpFetchAdd,
	ibv.DCI: ibv.SendOpWrite | ibv.SendOpWriteImm | ibv.SendOpSend | ibv.SendOpSendImm | ibv.SendOpRead |
		ibv.SendOpCompareSwap | ibv.SendOpFetchAdd,
}

// bindBySendOps lets a QP with SendOps bind windows: of type 2 only, and on the emulated device.
func (l *link) bindBySendOps(b bed) {
	switch {
	case l.opt.SendOps == 0:
	case !b.emulated:
		l.lends = 0
	default:
		l.opt.SendOps |= ibv.SendOpBindMW | ibv.SendOpLocalInv
		if l.lends != 0 {
			l.lends = ibv.MWType2
		}
	}
}

func newProgram(seed uint64, b bed) *program {
	r := rand.New(rand.NewPCG(seed, 0))
	p := &program{bed: b, seed: seed, rounds: 3 + r.IntN(6), shared: one(r, 2)}
	groups := 1 + r.IntN(4)
	if b.wire {
		groups = 1
	}
	for n := range groups {
		g := &group{num: n, split: one(r, 2), single: one(r, 4), srqSGE: pick(r, 1, 2, 5)}
		if one(r, 3) && b.emulated {
			g.srqWR = pick(r, 15, 16, 60, 100)
			g.slot = 40 + pick(r, 64, 200, 500)
		}
		g.sleep = one(r, 4) && !b.wire
		g.shared = p.shared && !g.single && !g.sleep && !b.wire
		for i := range pick(r, 1, 1, 2, 3, 5, 8) {
			l := &link{num: i, typ: pick(r, ibv.RC, ibv.RC, ibv.RC, ibv.RC, ibv.UC, ibv.UD)}
			l.opt = ibv.QPOptions{
				Type: l.typ, MaxSendWR: pick(r, 1, 3, 16, 32, 64), MaxRecvWR: pick(r, 1, 4, 16, 50),
				MaxSendSGE: pick(r, 1, 2, 4, 13, 30),
				MaxRecvSGE: pick(r, 1, 2, 3, 8), MaxInline: pick(r, 0, 12, 28, 60, 188, 400), SignalAll: one(r, 6),
			}
			l.area = pick(r, 2048, 8192, 8192, 65536)
			l.slot = pick(r, 64, 256, 1500)
			l.srq = g.srqWR > 0 && !one(r, 4)
			l.rnrZero = one(r, 2)
			if extended := rand.New(rand.NewPCG(seed, uint64(1+n)<<8|uint64(i))); one(extended, 3) {
				l.opt.SendOps = sendOps[l.typ]
			}
			if l.typ == ibv.UD {
				l.slot += 40
			} else if !b.wire { // package posts/wire compares what binds write
				l.lends = pick(r, 0, 0, ibv.MWType1, ibv.MWType2)
				l.binds = one(r, 2) && b.emulated
				if b.unbound {
					l.lends, l.binds = 0, false
				}
				l.bindBySendOps(b)
			}
			if l.slots = l.opt.MaxRecvWR; l.srq {
				l.slots, l.slot = 0, g.slot
			}
			g.links = append(g.links, l)
		}
		p.groups = append(p.groups, g)
	}
	p.drawXRC()
	p.drawDC()
	p.placeMemory()
	return p
}
