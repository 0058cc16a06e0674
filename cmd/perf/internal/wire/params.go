package wire

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"math"
	"strings"
	"time"
)

// Params has the values that both ends must agree on. Two rdmaperf exchange them; a stock peer shows it only in version
// 6.28.
type Params struct {
	Verb          Verb
	Metric        Metric
	Transport     Transport
	Atomic        AtomicType // of Verb Atomic
	Size          uint64     // bytes; the largest one of a sweep
	Iters         uint64     // messages per queue pair and size; 0 with Duration
	QPs           int
	Duration      time.Duration // 0: by iterations
	All           bool          // sweep over the sizes
	Bidirectional bool
	ReportBoth    bool // the ends also report in a run by time
	Reversed      bool // the client has the server's part
	PerPort       bool // the reports have figures of each port
	Gbits         bool // report in Gb/s; a stock peer reads our report in its own unit
	Verify        bool
	Multicast     bool
	Infinite      bool   // no end; Iters and Duration have no meaning
	Sizes         string // of a sweep, if they are no powers of two; a peer sends only a sum
	sizesSum      uint64 // of Sizes, as sent by a peer
	Payload       uint64 // Sum of a payload from a file; 0: rdmaperf's own
	Counts        bool   // the end sends the number of messages that arrived, where they may be lost; older ones do not
	// Takes is true if this end takes queue pairs, a larger size and an endless run from the peer, where its software
	// just waits; older ones do not.
	Takes bool
	// Secret replaces SecretEnv for a test that an agent runs. It is no part of the exchange.
	Secret Secret `json:",omitempty"`
	// Silence is for how long this end waits for a sign of life. It sends heartbeats, and expects them; 0: neither, as
	// older ones.
	Silence time.Duration
}

const (
	ourMagic  = "pverbs1\x00"
	paramsLen = 128
)

// paramsMessage is the message that two of us exchange as step 5, all big endian.
type paramsMessage struct {
	Magic                 [8]byte
	Verb, Metric          uint8
	Flags                 uint8
	Transport             uint8
	QPs                   uint32
	Size, Iters, Duration uint64 // bytes, messages, nanoseconds
	Atomic                uint8
	Sizes                 uint64   // sum of the list of sizes, 0 without one
	Payload               uint64   // sum of the payload, 0 without a file
	Can                   uint8    // what the end can do
	Silence               uint32   // milliseconds after which the end gives up without a heartbeat, 0: it has none
	_                     [66]byte // zeros, for later
}

// flags are those of a message, the lowest bit first.
func (p *Params) flags() []*bool {
	return []*bool{&p.All, &p.Bidirectional, &p.Verify, &p.Infinite, &p.ReportBoth, &p.Multicast, &p.Reversed,
		&p.PerPort}
}

// can has the abilities of the end: it sends the number of messages that arrived, and takes what a peer wants that
// works alone.
func (p *Params) can() []*bool { return []*bool{&p.Counts, &p.Takes} }

// packed has a bit for each flag.
func packed(flags []*bool) (bits uint8) {
	for i, f := range flags {
		if *f {
			bits |= 1 << i
		}
	}
	return bits
}

func unpack(bits uint8, flags []*bool) {
	for i, f := range flags {
		*f = bits>>i&1 != 0
	}
}

func (p Params) append(b []byte) []byte {
	silence := (p.Silence + time.Millisecond - 1).Milliseconds() // of less than one it is one, since 0 is none
	b, _ = binary.Append(b, binary.BigEndian, paramsMessage{Magic: [8]byte([]byte(ourMagic)), Verb: uint8(p.Verb),
		Metric: uint8(p.Metric), Flags: packed(p.flags()), Transport: uint8(p.Transport), QPs: uint32(p.QPs),
		Size: p.Size, Iters: p.Iters, Duration: uint64(p.Duration), Atomic: uint8(p.Atomic), Sizes: p.sum(),
		Payload: p.Payload, Can: packed(p.can()), Silence: uint32(min(silence, math.MaxUint32))})
	return b
}

// MostQPs bounds the queue pairs of a test, as perftest does.
const MostQPs = 1 << 14

func parseParams(b []byte) (Params, error) {
	if len(b) != paramsLen || !bytes.HasPrefix(b, []byte(ourMagic)) {
		return Params{}, fmt.Errorf("%s does not start with %q", hexdump(b), ourMagic)
	}
	var m paramsMessage
	binary.Decode(b, binary.BigEndian, &m) // it has the length
	p := Params{Verb: Verb(m.Verb), Metric: Metric(m.Metric), Transport: Transport(m.Transport),
		Atomic: AtomicType(m.Atomic), sizesSum: m.Sizes, Payload: m.Payload,
		Silence: time.Duration(m.Silence) * time.Millisecond, QPs: int(m.QPs), Size: m.Size, Iters: m.Iters,
		Duration: time.Duration(m.Duration)}
	unpack(m.Flags, p.flags())
	unpack(m.Can, p.can())
	if p.QPs < 1 || p.QPs > MostQPs {
		return Params{}, fmt.Errorf("%d queue pairs; allowed: 1 to %d", p.QPs, MostQPs)
	}
	if p.Duration < 0 {
		return Params{}, fmt.Errorf("negative duration %v", p.Duration)
	}
	return p, nil
}

// sum returns a number that distinguishes lists of sizes, 0 without one.
func (p Params) sum() uint64 {
	if p.Sizes == "" {
		return p.sizesSum
	}
	return Sum([]byte(p.Sizes))
}

// Sum returns a number by which two ends compare their lists.
func Sum(b []byte) uint64 {
	h := fnv.New64a()
	h.Write(b)
	return h.Sum64()
}

// Difference is one parameter in which the two ends differ.
type Difference struct {
	Name       string
	Ours, Peer string
}

// MismatchError has the parameters in which the two ends differ.
type MismatchError struct {
	Differences []Difference
}

// Error names each difference and both values.
func (e *MismatchError) Error() string {
	var s []string
	for _, d := range e.Differences {
		s = append(s, fmt.Sprintf("%s is %s here, %s at the peer", d.Name, d.Ours, d.Peer))
	}
	return "the two ends were started differently: " + strings.Join(s,
		"; ") + "; give both ends the same test and options"
}

// Check compares what matters to a run and returns a *MismatchError, or nil.
func (p Params) Check(peer Params) error {
	var diff []Difference
	add := func(name string, a, b any) {
		if a != b {
			diff = append(diff, Difference{name, fmt.Sprint(a), fmt.Sprint(b)})
		}
	}
	add("test", p.Verb.String()+" "+p.Metric.String(), peer.Verb.String()+" "+peer.Metric.String())
	add("connection type (-c)", p.Transport, peer.Transport)
	if p.Verb == Atomic && peer.Verb == Atomic {
		add("atomic type (-A)", p.Atomic, peer.Atomic)
	}
	if p.All != peer.All {
		add("sweep over all sizes (-a)", p.All, peer.All)
	} else {
		add("size (-s)", p.Size, peer.Size)
	}
	if p.sum() != peer.sizesSum {
		add("list of sizes (--sizes, --rounds)", cmp.Or(p.Sizes, "not given"), "another one")
	}
	add("endless (--run-infinitely)", p.Infinite, peer.Infinite)
	add("duration (-D)", p.Duration, peer.Duration)
	if !p.Infinite && (p.Duration == 0) == (peer.Duration == 0) {
		add("iterations (-n)", p.Iters, peer.Iters)
	}
	add("number of queue pairs (-q)", p.QPs, peer.QPs)
	add("bidirectional (-b)", p.Bidirectional, peer.Bidirectional)
	add("reports of both ends (--report-both)", p.ReportBoth, peer.ReportBoth)
	add("reversed (--reversed)", p.Reversed, peer.Reversed)
	add("figures of each port (--report-per-port)", p.PerPort, peer.PerPort)
	add("multicast (-g)", p.Multicast, peer.Multicast)
	add("payload check (--verify)", p.Verify, peer.Verify)
	if p.Verify && peer.Verify && p.Payload != peer.Payload {
		add("payload to check (--payload-file-path)", nameOf(p.Payload, "one file"),
			nameOf(peer.Payload, "another file"))
	}
	if diff != nil {
		return &MismatchError{diff}
	}
	return nil
}

// settle returns the peer's parameters without those that are its own business, or only this end's: where one end's
// software just waits, the other decides how long it runs, with which sizes, and on how many queue pairs.
func (p Params) settle(peer Params, role Role) Params {
	if !p.oneSided(peer) {
		return peer
	}
	if p.Takes && peer.Takes {
		peer.QPs, peer.Infinite = p.QPs, p.Infinite
	} else if works := p.works(role); p.Infinite || peer.Infinite || works && p.Size > peer.Size ||
		!works && peer.Size > p.Size {
		return peer
	}
	peer.Size, peer.All, peer.sizesSum, peer.Iters, peer.Duration = p.Size, p.All, p.sum(), p.Iters, p.Duration
	return peer
}

// Asked has the parameters that an end whose software just waits takes from its peer. Its zero value has none.
type Asked struct {
	QPs      int
	Size     uint64 // at least
	Infinite bool
}

// asked returns what this end takes from a peer.
func (p Params) asked(peer Params, role Role) Asked {
	if !p.oneSided(peer) || !p.Takes || !peer.Takes || p.works(role) {
		return Asked{}
	}
	return Asked{peer.QPs, peer.Size, peer.Infinite}
}

// works reports whether the software of this end, in a test that is one-sided, has the active part.
func (p Params) works(role Role) bool { return (role == Client) != p.Reversed }

// oneSided reports whether two ends agree that the software of one has no part in the test.
func (p Params) oneSided(peer Params) bool {
	return p.Verb == peer.Verb && p.Metric == peer.Metric && p.waits() && peer.waits()
}

// waits reports whether the software of one end has no part in the test.
func (p Params) waits() bool {
	return (p.Verb == Read || p.Verb == Atomic || p.Verb == Write && p.Metric == Bandwidth) && !p.Bidirectional &&
		!p.Verify && !p.ReportBoth
}

// nameOf names a payload by its sum.
func nameOf(sum uint64, file string) string {
	if sum == 0 {
		return "rdmaperf's own"
	}
	return file
}
