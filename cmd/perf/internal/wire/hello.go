package wire

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"regexp"
	"strconv"
)

// Version is the version that rdmaperf announces: the last version of perftest whose exchange has no step 5.
const Version = "6.27"

const (
	versionLen = 16
	busyText   = "busy"            // in place of a version; a stock peer calls it too old
	agentText  = "pureverbs-agent" // also in its place, of an rdmaperf serve
	minVersion = 5.70              // older ones report in another format

	// A page is also the unit in which senders walk through the peer's memory: each
	// queue pair has two of them. No system that runs Linux has larger ones.
	maxPage  = 256 << 10
	maxCache = 4096
)

// Hello is one end's information about itself in steps 1 to 5.
type Hello struct {
	PageSize  int
	CacheLine int
	MTU       int // value of ibv_mtu, 1 to 5
	Params    Params
	MaxReads  int // the device's limit of outstanding reads, for 6.28
	ShortNeg  bool
}

// Agreed has the values that both ends use after Hello.
type Agreed struct {
	PeerVersion string
	Ours        bool // the peer is one of us
	Asked       Asked
	Beats       bool // both ends send heartbeats, and say so if they are interrupted
	Counts      bool // both ends send the number of messages that arrived, where they may be lost
	PageSize    int
	CacheLine   int
	MTU         int
}

var (
	versionForm  = regexp.MustCompile(`^[0-9]{1,3}\.[0-9]{1,4}$`)
	versionBegin = regexp.MustCompile(`^[0-9]{1,3}(\.[0-9]{0,4})?$`)
)

// Greeting returns why a message is not a client's first one, or nil.
func Greeting(b []byte) error {
	if len(b) != versionLen || !greets(b) {
		return fmt.Errorf("%w: its first message is %s", ErrGarbage, quote(b))
	}
	return nil
}

// greets reports whether bytes may begin a version: up to the first zero, digits and one point. What is behind it means
// nothing.
func greets(b []byte) bool {
	text, _, whole := bytes.Cut(b, []byte{0})
	if whole {
		return versionForm.Match(text)
	}
	return versionBegin.Match(text)
}

// Hello does steps 1 to 5. If the peer sends its parameters, they are checked.
func (w *Conn) Hello(h Hello) (Agreed, error) {
	var a Agreed
	const step = "version"
	out := make([]byte, versionLen)
	copy(out, Version)
	// Stock peers stop reading at the zero.
	copy(out[versionLen-len(ourMagic):], ourMagic)
	in := make([]byte, versionLen)
	if err := w.exchange(step, out, in, w.timeout); err != nil {
		return a, err
	}
	text, _, _ := bytes.Cut(in, []byte{0})
	a.PeerVersion = string(text)
	if a.PeerVersion == busyText {
		return a, w.fail(step, ErrBusy)
	}
	if bytes.HasPrefix(in, []byte(agentText)) {
		return a, w.fail(step, ErrAgent)
	}
	if !versionForm.Match(text) {
		return a, w.fail(step, fmt.Errorf("%w: its version is %s, expected something like %q", ErrGarbage, quote(in),
			Version))
	}
	v, err := strconv.ParseFloat(a.PeerVersion, 64)
	if err != nil || v < minVersion {
		return a, w.fail(step, fmt.Errorf("%w: its version is %s, the oldest supported one is %.2f", ErrGarbage,
			a.PeerVersion, minVersion))
	}
	w.version = v
	w.ours = bytes.HasSuffix(in, []byte(ourMagic))
	a.Ours = w.ours

	if a.PageSize, err = w.maxInt("page size", h.PageSize, maxPage); err != nil {
		return a, err
	}
	if a.CacheLine, err = w.maxInt("cache line size", h.CacheLine, maxCache); err != nil {
		return a, err
	}
	mtu := []byte{byte('0' + h.MTU), 0}
	got := make([]byte, 2)
	if err := w.exchange("MTU", mtu, got, w.timeout); err != nil {
		return a, err
	}
	peerMTU := int(got[0]) - '0'
	if got[1] != 0 || peerMTU < 1 || peerMTU > 5 {
		return a, w.fail("MTU", fmt.Errorf("%w: its MTU is %s, expected \"1\" to \"5\"", ErrGarbage, quote(got)))
	}
	a.MTU = min(h.MTU, peerMTU)

	switch {
	case w.ours:
		peer, err := w.params(h.Params)
		if err != nil {
			return a, err
		}
		a.Counts, a.Beats = h.Params.Counts && peer.Counts, h.Params.Silence > 0 && peer.Silence > 0
		a.Asked = h.Params.asked(peer, w.role)
		if a.Beats {
			w.startBeats(peer.Silence)
		}
		return a, nil
	case a.PeerVersion == negotiateVersion:
		return a, w.negotiate(h)
	}
	return a, nil
}

// maxInt exchanges a 32-bit number; the larger one counts.
func (w *Conn) maxInt(step string, own, most int) (int, error) {
	out, in := make([]byte, 4), make([]byte, 4)
	binary.BigEndian.PutUint32(out, uint32(own))
	if err := w.exchange(step, out, in, w.timeout); err != nil {
		return 0, err
	}
	v := binary.BigEndian.Uint32(in)
	if v == 0 || v > uint32(most) {
		return 0, w.fail(step, fmt.Errorf("%w: its %s is %d, expected 1 to %d", ErrGarbage, step, v, most))
	}
	return max(own, int(v)), nil
}

// params exchanges the parameters, compares them, and returns the peer's.
func (w *Conn) params(p Params) (peer Params, err error) {
	in := make([]byte, paramsLen)
	if err := w.exchange("parameters", p.append(nil), in, w.timeout); err != nil {
		return peer, err
	}
	if peer, err = parseParams(in); err != nil {
		return peer, w.fail("parameters", fmt.Errorf("%w: %v", ErrGarbage, err))
	}
	if err := p.Check(p.settle(peer, w.role)); err != nil {
		return peer, w.fail("parameters", err)
	}
	return peer, nil
}
