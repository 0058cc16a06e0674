//go:build linux

package hca

import (
	"fmt"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// diagram is the state diagram of ib_core once more, in the words of the specification's tables: type, from, to, what
// is required, what is optional. Less in it than for UD is not less than is there: a type takes each of UD's arrows, if
// without attributes. C: qp_state_table of ib_core; for DCI modify_dci_qp_is_ok, for DCT mlx5_ib_modify_dct.
const diagram = `
UD  RESET INIT | PKEY PORT QKEY |
UD  INIT INIT  | | PKEY PORT QKEY
UD  INIT RTR   | | PKEY QKEY
UD  RTR RTS    | SQPSN | CUR QKEY
UD  RTS RTS    | | CUR QKEY
UD  RTS SQD    | | NOTIFY
UD  SQD RTS    | | CUR QKEY
UD  SQD SQD    | | PKEY QKEY
UD  SQE RTS    | | CUR QKEY
UC  RESET INIT | PKEY PORT ACCESS |
UC  INIT INIT  | | PKEY PORT ACCESS
UC  INIT RTR   | AV MTU DEST RQPSN | ALT ACCESS PKEY
UC  RTR RTS    | SQPSN | CUR ALT ACCESS MIG
UC  RTS RTS    | | CUR ALT ACCESS MIG
UC  RTS SQD    | | NOTIFY
UC  SQD RTS    | | CUR ALT ACCESS MIG
UC  SQD SQD    | | AV ALT ACCESS PKEY MIG
UC  SQE RTS    | | CUR ACCESS
RC  RESET INIT | PKEY PORT ACCESS |
RC  INIT INIT  | | PKEY PORT ACCESS
RC  INIT RTR   | AV MTU DEST RQPSN DESTRD MINRNR | ALT ACCESS PKEY
RC  RTR RTS    | TIMEOUT RETRY RNR SQPSN RD | CUR ALT ACCESS MINRNR MIG
RC  RTS RTS    | | CUR ALT ACCESS MINRNR MIG
RC  RTS SQD    | | NOTIFY
RC  SQD RTS    | | CUR ALT ACCESS MINRNR MIG
RC  SQD SQD    | | PORT AV TIMEOUT RETRY RNR RD DESTRD ALT ACCESS PKEY MINRNR MIG
INI RESET INIT | PKEY PORT ACCESS |
INI INIT INIT  | | PKEY PORT ACCESS
INI INIT RTR   | AV MTU DEST RQPSN | ALT ACCESS PKEY
INI RTR RTS    | TIMEOUT RETRY RNR SQPSN RD | CUR ALT ACCESS MIG
INI RTS RTS    | | CUR ALT ACCESS MIG
INI RTS SQD    | | NOTIFY
INI SQD RTS    | | CUR ALT ACCESS MIG
INI SQD SQD    | | PORT AV TIMEOUT RETRY RNR RD ALT ACCESS PKEY MIG
TGT RESET INIT | PKEY PORT ACCESS |
TGT INIT INIT  | | PKEY PORT ACCESS
TGT INIT RTR   | AV MTU DEST RQPSN DESTRD MINRNR | ALT ACCESS PKEY
TGT RTR RTS    | TIMEOUT SQPSN | CUR ALT ACCESS MINRNR MIG
TGT RTS RTS    | | CUR ALT ACCESS MINRNR MIG
TGT RTS SQD    | | NOTIFY
TGT SQD RTS    | | CUR ALT ACCESS MINRNR MIG
TGT SQD SQD    | | PORT AV TIMEOUT DESTRD ALT ACCESS PKEY MINRNR MIG
RAW RESET INIT | PORT |
DCI RESET INIT | PKEY PORT |
DCI INIT INIT  | | PKEY PORT
DCI INIT RTR   | MTU | PKEY AV
DCI RTR RTS    | TIMEOUT RETRY RNR RD SQPSN | MINRNR
DCI RTS RTS    | | MINRNR
DCT RESET INIT | ACCESS PKEY PORT |
DCT INIT RTR   | MINRNR AV MTU |
`

// commands has where mlx5's driver has a command for: each to RESET and ERR besides. C: optab of mlx5_ib; for raw
// packet QPs modify_raw_packet_qp.
const commands = `
RESET INIT | INIT INIT | INIT RTR | RTR RTS | RTS RTS | SQD RTS | SQE RTS
RAW:
RESET INIT | INIT INIT | INIT RTR | RTR RTS | RTS RTS
`

var (
	attrs = map[string]AttrMask{"CUR": AttrCurState, "NOTIFY": AttrSQDNotify, "ACCESS": AttrAccess,
		"PKEY": AttrPKeyIndex, "PORT": AttrPort, "QKEY": AttrQKey, "AV": AttrAV, "MTU": AttrPathMTU,
		"TIMEOUT": AttrTimeout, "RETRY": AttrRetryCnt, "RNR": AttrRNRRetry, "RQPSN": AttrRQPSN, "RD": AttrMaxRdAtomic,
		"ALT": AttrAltPath, "MINRNR": AttrMinRNRTimer, "SQPSN": AttrSQPSN, "DESTRD": AttrMaxDestRdAtomic,
		"MIG": AttrPathMigState, "CAP": AttrCap, "DEST": AttrDestQPN, "RATE": AttrRateLimit}
	types = map[string]QPType{"UD": UD, "UC": UC, "RC": RC, "INI": XRCSend, "TGT": XRCRecv, "RAW": RawPacket,
		"DCI": DCI, "DCT": DCT}
)

func words(s string) (m AttrMask) {
	for w := range strings.FieldsSeq(s) {
		if attrs[w] == 0 {
			panic(w)
		}
		m |= attrs[w]
	}
	return m
}

type arrow struct {
	t        QPType
	from, to QPState
}

// kernel is Linux's rule for a modification, written again from its source.
type kernel struct {
	diagram  map[arrow]masks
	commands map[arrow]bool
}

func readKernel() kernel {
	k := kernel{map[arrow]masks{}, map[arrow]bool{}}
	state := func(s string) QPState {
		for state, name := range stateNames {
			if name == s {
				return state
			}
		}
		return Err + 1
	}
	for line := range strings.Lines(strings.TrimSpace(diagram)) {
		part := strings.Split(line, "|")
		w := strings.Fields(part[0])
		k.diagram[arrow{types[w[0]], state(w[1]), state(w[2])}] = masks{words(part[1]), words(part[2])}
	}
	for _, t := range types {
		for from := Reset; from <= Err; from++ {
			k.commands[arrow{t, from, Reset}], k.commands[arrow{t, from, Err}] = true, true
		}
		general, raw, _ := strings.Cut(commands, "RAW:")
		if t == RawPacket {
			general = raw
		}
		for a := range strings.SplitSeq(general, "|") {
			w := strings.Fields(a)
			k.commands[arrow{t, state(w[0]), state(w[1])}] = true
		}
	}
	return k
}

// modification is a modify_qp of a QP in a state. The driver knows it to be in another one.
type modification struct {
	t             QPType
	state, known  QPState
	current, next QPState
	mask          AttrMask
}

func (m modification) String() string {
	return fmt.Sprintf("%v in %v, known as %v, called %v, to %v with mask %#x", m.t, m.state, m.known, m.current,
		m.next, uint32(m.mask))
}

func (k kernel) answer(m modification) unix.Errno {
	from, rest := m.known, m.mask&^AttrState
	if m.mask&AttrCurState != 0 && m.t != DCT {
		from = m.current
	}
	to := from
	if m.mask&AttrState != 0 {
		to = m.next
	}
	row, listed := k.diagram[arrow{m.t, from, to}]
	_, drawn := k.diagram[arrow{UD, from, to}]
	fits := func(may AttrMask) bool { return rest&row.need == row.need && rest&^(row.need|row.may|may) == 0 }
	switch m.t {
	case DCT:
		if m.mask&AttrState == 0 || !listed || !fits(0) {
			return unix.EINVAL
		}
		return 0
	case DCI:
		if m.mask == AttrRateLimit && from != RTS {
			return unix.EOPNOTSUPP
		}
		leaves := to == Reset || to == Err && from != Reset
		if m.mask&AttrState == 0 || !listed && !leaves || !fits(0) {
			return unix.EINVAL
		}
	default:
		named := from == RTR || from == RTS || from == SQD || from == SQE
		valid := listed || drawn || to == Reset || to == Err && from != Reset
		switch {
		case m.mask == AttrRateLimit && from != RTS && m.t == RawPacket:
			return 0
		case m.mask == AttrRateLimit && from != RTS:
			return unix.EOPNOTSUPP
		case m.mask&AttrCurState != 0 && !named, !valid, !fits(AttrRateLimit):
			return unix.EINVAL
		case from == Reset && to == Reset:
			return 0
		}
	}
	switch {
	case from == Reset && to == Reset:
		return 0
	case !k.commands[arrow{m.t, from, to}]:
		return unix.EINVAL
	case m.mask&AttrRateLimit != 0 && m.t != RawPacket:
		return unix.EOPNOTSUPP
	case to != Reset && to != Err && from != m.state: // the adapter's answer
		return unix.EINVAL
	}
	return 0
}

// TestTransitions tries every transition of every type, in each state that the QP and the driver can be in and with
// each state that the program can name, with what the diagram requires, without each of that, and with each other
// attribute.
func TestTransitions(t *testing.T) {
	b := newBench(t, "mlx5_0,link=ib")
	c, k := b.open(0), readKernel()
	path := AHAttr{Port: 1, DLID: b.f.Devices[0].Ports[0].Config.LID}
	n, refused := 0, 0
	for name, typ := range types {
		qp := &QP{Type: typ, Register: -1}
		c.add(qp)
		try := func(m modification) {
			qp.State, qp.Known, qp.Attr = m.state, m.known, QPAttr{Port: 1}
			a := QPAttr{CurState: m.current, PathMTU: 3, AH: path, AltAH: path, AltPort: 1, Port: 1}
			want := k.answer(m)
			got := qp.Modify(&a, m.mask, m.next)
			after := m.state
			if want == 0 && m.mask != AttrRateLimit {
				after = m.known
				if m.mask&AttrCurState != 0 {
					after = m.current
				}
				if m.mask&AttrState != 0 {
					after = m.next
				}
			}
			if got != want || qp.State != after {
				t.Fatalf("%s: %v: %v, and then in %v; want %v, and then in %v", name, m, got, qp.State, want, after)
			}
			if n++; want != 0 {
				refused++
			}
			if qp.Num != 0 {
				b.f.Devices[0].qps().free(qp.Num - FirstQPN)
				qp.Num = 0
			}
		}
		for state := Reset; state <= Err; state++ {
			knows := []QPState{state}
			if state >= SQD {
				knows = append(knows, RTS) // and it got there by itself
			}
			for _, known := range knows {
				for current := Reset; current <= Err+1; current++ {
					for next := Reset; next <= Err+1; next++ {
						m := modification{t: typ, state: state, known: known, current: current, next: next}
						from := known
						if current <= Err {
							m.mask, from = AttrCurState, current
						}
						to := from
						if next <= Err {
							m.mask, to = m.mask|AttrState, next
						}
						base := m.mask
						for _, need := range []AttrMask{0, k.diagram[arrow{typ, from, to}].need} {
							m.mask = base | need
							try(m)
							for _, bit := range attrs {
								m.mask = (base | need) ^ bit
								try(m)
							}
						}
					}
				}
			}
		}
		delete(c.objects, qp.Handle)
	}
	t.Logf("%d modifications, %d of them refused", n, refused)
	if n-refused < 1000 {
		t.Errorf("%d of %d modifications are taken", n-refused, n)
	}
}

// TestModify_Values looks at the values that a modification refuses, and that it leaves the QP alone then.
func TestModify_Values(t *testing.T) {
	b := newBench(t)
	s := b.set(0)
	qp := got(CreateQP(s.c, b.qpInit(s.pd, s.cq, s.uar, RC)))(b)
	start := QPAttr{Port: 1}
	b.is("port 2", qp.Modify(&QPAttr{Port: 2}, AttrState|inPort, Init), unix.EINVAL)
	b.is("pkey 7", qp.Modify(&QPAttr{Port: 1, PKeyIndex: 7}, AttrState|inPort, Init), unix.EINVAL)
	b.is("init", qp.Modify(&start, AttrState|inPort, Init), 0)
	need := path | AttrMaxDestRdAtomic | AttrMinRNRTimer
	good := QPAttr{PathMTU: 3, DestQPN: 5, RQPSN: 0x1234567, MaxDestRdAtomic: 16,
		AH: AHAttr{Global: true, SGIDIndex: 3, Port: 1, HopLimit: 1, DGID: b.f.Devices[0].Ports[0].GID(3).GID}}
	for name, change := range map[string]func(*QPAttr){
		"mtu 0":         func(a *QPAttr) { a.PathMTU = 0 },
		"static rate 1": func(a *QPAttr) { a.AH.StaticRate = 1 },
		"no such rate":  func(a *QPAttr) { a.AH.StaticRate = 26 },
		"mtu 6":         func(a *QPAttr) { a.PathMTU = 6 },
		"mtu of 4096":   func(a *QPAttr) { a.PathMTU = 5 }, // the port has 1024
		"rd atomic":     func(a *QPAttr) { a.MaxDestRdAtomic = 17 },
		"no grh":        func(a *QPAttr) { a.AH.Global = false },
		"port of ah":    func(a *QPAttr) { a.AH.Port = 9 },
	} {
		a := good
		change(&a)
		b.is(name, qp.Modify(&a, AttrState|need, RTR), unix.EINVAL)
		if qp.State != Init || qp.Attr.DestQPN != 0 {
			t.Fatalf("%s changed the QP: %v %+v", name, qp.State, qp.Attr)
		}
	}
	bad := good
	bad.AH.SGIDIndex = 200
	b.is("empty gid", qp.Modify(&bad, AttrState|need, RTR), unix.ENODATA)
	bad = good
	bad.AH.DGID[15] = 99
	b.is("nobody", qp.Modify(&bad, AttrState|need, RTR), unix.ETIMEDOUT)
	if qp.State != Init || qp.Attr.DestQPN != 0 {
		t.Fatalf("a bad address changed the QP: %v %+v", qp.State, qp.Attr)
	}
	b.is("rtr", qp.Modify(&good, AttrState|need, RTR), 0)
	if qp.Attr.RQPSN != 0x234567 || qp.Attr.DestQPN != 5 {
		t.Errorf("%+v", qp.Attr)
	}
	b.is("wrong current state", qp.Modify(&QPAttr{CurState: RTS}, AttrState|retried|AttrCurState, RTS),
		unix.EINVAL)
	b.is("rts", qp.Modify(&QPAttr{CurState: RTR}, AttrState|retried|AttrCurState, RTS), 0)
	b.is("reset", qp.Modify(&QPAttr{}, AttrState, Reset), 0)
	if qp.Attr != (QPAttr{}) || b.eng.left != 1 {
		t.Errorf("after a reset %+v, told %d times", qp.Attr, b.eng.left)
	}
}

// TestModify_Kept looks at what becomes of values that an adapter has fewer bits for, or keeps the logarithm of.
func TestModify_Kept(t *testing.T) {
	for _, x := range []struct{ asked, own, dest uint8 }{{0, 1, 1}, {1, 1, 1}, {2, 2, 2}, {3, 4, 4}, {4, 4, 4},
		{5, 8, 8}, {8, 8, 8}, {9, 16, 16}, {16, 16, 16}} {
		b := newBench(t)
		s := b.set(0)
		qp := got(CreateQP(s.c, b.qpInit(s.pd, s.cq, s.uar, RC)))(b)
		const all = AccessLocalWrite | AccessRemoteWrite | AccessRemoteRead | AccessRemoteAtomic
		b.is("init", qp.Modify(&QPAttr{Port: 1, Access: all}, AttrState|inPort, Init), 0)
		if r := qp.Rights(); r != AccessRemoteWrite {
			t.Errorf("in INIT, without resources, the rights are %#x", r)
		}
		b.is("rtr", qp.Modify(&QPAttr{PathMTU: 3, DestQPN: 1<<24 + 5, MinRNRTimer: 32 + 7,
			MaxDestRdAtomic: x.asked,
			AH:              AHAttr{Global: true, SGIDIndex: 3, Port: 1, DGID: b.f.Devices[0].Ports[0].GID(3).GID}},
			AttrState|path|AttrMaxDestRdAtomic|AttrMinRNRTimer, RTR), 0)
		b.is("rts", qp.Modify(&QPAttr{MaxRdAtomic: x.asked, Timeout: 32 + 3, RetryCnt: 8 + 5,
			RNRRetry: 8 + 6, PathMigState: 9}, AttrState|retried|AttrPathMigState, RTS), 0)
		a := &qp.Attr
		if a.Reads() != x.own || a.DestReads() != x.dest || a.DestQPN != 5 || a.MinRNRTimer != 7 || a.Timeout != 3 ||
			a.RetryCnt != 5 || a.RNRRetry != 6 || a.PathMigState != 0 {
			t.Errorf("asked for %d READs: %d, %d, %+v", x.asked, a.Reads(), a.DestReads(), a)
		}
		want := all &^ AccessLocalWrite
		if x.asked == 0 {
			want = AccessRemoteWrite
		}
		if r := qp.Rights(); r != want {
			t.Errorf("with resources for %d the rights are %#x, want %#x", x.asked, r, want)
		}
	}
}

// TestModify_Rate limits the rate of QPs: only frames have one, of an adapter with a table of rates, and 0 is none.
func TestModify_Rate(t *testing.T) {
	const no, bad = unix.EOPNOTSUPP, unix.EINVAL
	for model, raw := range map[string]map[uint32]unix.Errno{"cx7": {0: 0, 1: 0, MaxPace: 0, MaxPace + 1: bad},
		"cx5": {0: 0, 1: no, MaxPace: no, MaxPace + 1: no}} {
		b := newBench(t, "mlx5_0,model="+model)
		s := b.set(0)
		for _, typ := range []QPType{RC, UC, UD, RawPacket, XRCSend} {
			qp := &QP{Type: typ, Register: -1}
			s.c.add(qp)
			for rate, want := range raw {
				if typ != RawPacket {
					want = no
				}
				for _, state := range []QPState{Init, RTS} {
					qp.State, qp.Known = state, state
					b.is(fmt.Sprintf("%s, %v in %v, %d", model, typ, state, rate),
						qp.Modify(&QPAttr{RateLimit: rate}, AttrRateLimit, 0), want)
				}
			}
			delete(s.c.objects, qp.Handle)
		}
	}
}
