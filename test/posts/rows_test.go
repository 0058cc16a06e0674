//go:build linux

package posts

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"

	"github.com/pureverbs/pureverbs/ibv"
)

// row is one kind of work request for a transport. Its numbers are indices into the lists below.
type row struct {
	typ    ibv.QPType
	op     ibv.Opcode
	flags  ibv.SendFlags
	data   data
	remote remote
	way    way
}

func (r row) String() string {
	return fmt.Sprintf("%v %v %v, %v, %v, %v", r.typ, r.op, r.flags, r.data, r.remote, r.way)
}

// opcodes are all that package ibv names, and some that it does not.
var opcodes = []ibv.Opcode{
	ibv.OpWrite, ibv.OpWriteImm, ibv.OpSend, ibv.OpSendImm, ibv.OpRead, ibv.OpCompareSwap, ibv.OpFetchAdd,
	ibv.OpLocalInv, ibv.OpBindMW, ibv.OpSendInv,
	ibv.OpMaskedCompareSwap, ibv.OpMaskedFetchAdd,
	ibv.OpTSO, ibv.OpDriver1, 12, 13, ibv.OpFlush, ibv.OpAtomicWrite, ibv.OpRawWQE, ibv.OpMemcpy, 34, 258,
	1<<32 - 1,
}

// takes lists the opcodes that verbs allow on a transport (InfiniBand specification, table 38; ibv_post_send(3)),
// without those that this library does not support.
var takes = map[ibv.QPType][]ibv.Opcode{
	ibv.RC: {ibv.OpWrite, ibv.OpWriteImm, ibv.OpSend, ibv.OpSendImm, ibv.OpRead, ibv.OpCompareSwap, ibv.OpFetchAdd,
		ibv.OpLocalInv, ibv.OpBindMW, ibv.OpSendInv, ibv.OpMaskedCompareSwap, ibv.OpMaskedFetchAdd},
	ibv.XRCSend: {ibv.OpWrite, ibv.OpWriteImm, ibv.OpSend, ibv.OpSendImm, ibv.OpRead, ibv.OpCompareSwap,
		ibv.OpFetchAdd, ibv.OpLocalInv, ibv.OpBindMW, ibv.OpSendInv, ibv.OpMaskedCompareSwap, ibv.OpMaskedFetchAdd},
	ibv.DCI: {ibv.OpWrite, ibv.OpWriteImm, ibv.OpSend, ibv.OpSendImm, ibv.OpRead, ibv.OpCompareSwap, ibv.OpFetchAdd,
		ibv.OpLocalInv, ibv.OpSendInv, ibv.OpMaskedCompareSwap, ibv.OpMaskedFetchAdd},
	ibv.UC: {ibv.OpWrite, ibv.OpWriteImm, ibv.OpSend, ibv.OpSendImm, ibv.OpLocalInv, ibv.OpBindMW},
	ibv.UD: {ibv.OpSend, ibv.OpSendImm},
}

const unknownFlag ibv.SendFlags = 1 << 5

// allFlags are all combinations of the known flags and an unknown one.
const allFlags = unknownFlag<<1 - 1

// data is the data that a work request sends, or the memory for the data that it receives.
type data int

const (
	noData    data = iota
	one            // an SGE of 1 byte
	eight          // of 8
	hundred        // of 100
	zero           // of none
	two            // two SGEs
	many           // more SGEs than the QP takes
	gib2           // an SGE of 2 GiB
	gib4           // of 4 GiB - 1
	late           // a good one, and then one of 2 GiB
	before         // MR.SGE from a negative offset
	beyond         // MR.SGE beyond the end
	huge           // MR.SGE of 4 GiB
	inShort        // Inline, a few bytes
	inBlock        // 20 to 51, around what fits in the first block of a WQE
	inLong         // as many as the QP takes
	inTooLong      // one more
	inEmpty        // not nil, and empty
	both           // Inline and an SGE
	dataKinds
)

func (d data) String() string {
	return [...]string{"no data", "1 byte", "8 bytes", "100 bytes", "an empty SGE", "2 SGEs", "too many SGEs", "2 GiB",
		"4 GiB - 1", "2 GiB in the second SGE",
		"MR.SGE(-1, 8)", "MR.SGE beyond the end", "MR.SGE of 4 GiB", "short Inline", "Inline to the end of a block",
		"long Inline", "too long Inline", "empty Inline", "Inline and an SGE"}[d]
}

// remote is the peer's memory that a work request names.
type remote int

const (
	right    remote = iota
	outside         // RemoteMemory.At beyond the end
	wrongKey        // not the peer's key
	remotes
)

func (r remote) String() string { return [...]string{"", "remote beyond the end", "wrong rkey"}[r] }

// way is the part of a work request that addresses the peer.
type way int

const (
	noAH     way = iota
	theAH        // the one of the peer
	otherPD      // an AH of another PD
	closedAH     // one that is closed
	longQPN      // a QPN of more than 24 bits
	ways
)

func (w way) String() string {
	return [...]string{"no AH", "AH", "AH of another PD", "closed AH", "QPN of 25 bits"}[w]
}

// plain returns the valid row of a transport and an opcode.
func plain(typ ibv.QPType, op ibv.Opcode) row {
	r := row{typ: typ, op: op, flags: ibv.Signaled, data: eight}
	if op == ibv.OpLocalInv || op == ibv.OpBindMW {
		r.data = noData
	}
	if names(typ, op) {
		r.way = theAH
	}
	return r
}

// names reports whether a work request names its peer.
func names(typ ibv.QPType, op ibv.Opcode) bool {
	return typ == ibv.UD || typ == ibv.DCI && op != ibv.OpLocalInv
}

// off returns the number of respects in which a row differs from the plain one.
func (r row) off() (n int) {
	p := plain(r.typ, r.op)
	for _, differs := range []bool{r.flags != p.flags, r.data != p.data, r.remote != p.remote, r.way != p.way} {
		if differs {
			n++
		}
	}
	return n
}

// known reports whether the transport takes the opcode.
func (r row) known() bool {
	for _, op := range takes[r.typ] {
		if op == r.op {
			return true
		}
	}
	return false
}

func (r row) hash(salt string) uint32 {
	h := fnv.New32a()
	_, _ = fmt.Fprintf(h, "%s %d %d %d %d %d %d", salt, r.typ, r.op, r.flags, r.data, r.remote, r.way)
	return h.Sum32()
}

// trial is a row with the kinds of QP that it is tried on, as bits.
type trial struct {
	row
	kinds uint8
}

// Quick uses these rows of the product. Where the transport takes the opcode:
//   - on two kinds of QP: what differs from the plain row of its opcode in its data, its remote side or its way, or not
//     at all;
//   - on one kind: what differs in its flags (of atomics with masks one in 6 of these), one in 12 of those that differ
//     in two respects, and one in 400 of the others;
//
// of XRC and a DCI only one kind in the first two cases; and where it does not, one in 40 of those that differ in
// one respect at most, and one in 2000 of the others. Which they are, and which kinds of QP, is chosen by a hash of
// the row and salt.
func quick(r row, salt string) (kinds uint8) {
	h := r.hash(salt)
	kind := uint8(1) << (h >> 16 % uint32(len(allKinds)))
	one := func(in uint32) uint8 {
		if h%in != 0 {
			return 0
		}
		return kind
	}
	p := plain(r.typ, r.op)
	switch off := r.off(); {
	case in(r.op, maskedOps) && r.known() && off == 1 && r.flags != p.flags: // as those of the other atomics
		return one(6)
	case (r.typ == ibv.DCI || r.typ == ibv.XRCSend) && r.known() && off <= 1: // they differ from RC in their way only
		return kind
	case !r.known():
		return one(map[bool]uint32{true: 40, false: 2000}[off <= 1])
	case off <= 1 && r.flags == p.flags:
		return kind | kind<<4 | kind>>4
	case off == 1:
		return kind
	case off == 2:
		return one(12)
	}
	return one(400)
}

// halves are the parts of a full run: the tier's two runs post on the same QPs.
var halves = map[string]uint32{"ops": 0, "direct": 1}

// trials returns the rows of a run, in a random order that is always the same.
func trials(full bool, salt string) (ts []trial) {
	for _, typ := range []ibv.QPType{ibv.RC, ibv.UC, ibv.UD, ibv.XRCSend, ibv.DCI} {
		last := theAH
		if typ == ibv.UD || typ == ibv.DCI {
			last = ways - 1
		}
		for _, op := range opcodes {
			for flags := range allFlags + 1 {
				for d := range dataKinds {
					for rem := range remotes {
						for w := range last + 1 {
							t := trial{row: row{typ, op, flags, d, rem, w}, kinds: 1<<len(allKinds) - 1}
							if !full {
								t.kinds = quick(t.row, salt)
							} else if t.off() > 2 { // on one kind of QP
								t.kinds = 1 << (t.hash(salt) >> 16 % uint32(len(allKinds)))
							}
							if typ == ibv.XRCSend { // always with an SRQ: of two kinds, one is enough
								t.kinds = (t.kinds | t.kinds>>1) & 0x55
							}
							half, divided := halves[salt]
							if full && divided && t.hash("half")%2 != half {
								continue
							}
							if t.kinds != 0 {
								ts = append(ts, t)
							}
						}
					}
				}
			}
		}
	}
	rand.New(rand.NewPCG(1, 2)).Shuffle(len(ts), func(i, k int) { ts[i], ts[k] = ts[k], ts[i] })
	return ts
}

// kind is a kind of QP.
type kind struct {
	srq       bool
	inline    int
	signalAll bool
}

var allKinds = [...]kind{
	{false, 0, false}, {true, 0, false}, {false, 64, false}, {true, 64, false}, {false, 0, true}, {true, 0, true},
	{false, 64, true}, {true, 64, true},
}

func (k kind) String() string {
	return fmt.Sprintf("SRQ %v, MaxInline %d, SignalAll %v", k.srq, k.inline, k.signalAll)
}
