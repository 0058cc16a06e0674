package ibv

import (
	"errors"
	"fmt"
	"math"

	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/life"
)

// RSSOptions make a QP of type RawPacket an RSS QP, which spreads the frames that its steering rules
// lead to it among WQs, by a hash of header fields: receive-side scaling. It has no queues, no CQs,
// no number and no states. Frames without the fields are delivered to the first WQ of the table.
//
// C: struct ibv_rx_hash_conf, and rwq_ind_tbl of struct ibv_qp_init_attr_ex.
type RSSOptions struct {
	Table *RWQIndTable
	// Function is the hash; 0 means HashToeplitz.
	Function HashFuncs
	// Key of the hash, 40 bytes on mlx5; nil means the one that Microsoft published with test vectors, which
	// many drivers use.
	Key []byte
	// Fields are hashed. mlx5 takes addresses of one version of IP, and ports of one protocol. 0 is for a
	// Table of one place.
	Fields HashFields
}

// defaultRSSKey is the key of "Verifying the RSS Hash Calculation" in Microsoft's driver documentation.
var defaultRSSKey = []byte{
	0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3, 0x8f, 0xb0,
	0xd0, 0xca, 0x2b, 0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30, 0xf2, 0x0c,
	0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa,
}

// toeplitzKey is the size of the key that devices take.
const toeplitzKey = 40

// createRSS makes an RSS QP.
func (pd *PD) createRSS(send, recv *CQ, opt *QPOptions, maker qpMaker) (*QP, error) {
	const op = "create qp"
	d := pd.dev
	r := *opt.RSS
	if r.Function == 0 {
		r.Function = HashToeplitz
	}
	if r.Key == nil {
		r.Key = defaultRSSKey
	}
	fail := func(err error) (*QP, error) { return nil, &OpError{Op: op, Object: d.Name(), Err: err} }
	if err := r.check(pd, send, recv, opt); err != nil {
		return fail(err)
	}
	nodes := []*node{&pd.node, &r.Table.node}
	if err := enterAll(op, nodes...); err != nil {
		return nil, err
	}
	defer leaveAll(nodes...)
	init := &abi.QPInitAttrEx{QPType: opt.Type.toC(), RwqIndTbl: r.Table.handle,
		CompMask: abi.IBV_QP_INIT_ATTR_IND_TABLE | abi.IBV_QP_INIT_ATTR_RX_HASH}
	h, err := init.WithRSSKey(uint8(r.Function), uint64(r.Fields), r.Key,
		func() (uintptr, error) { return maker.Create(pd.handle, init) })
	if err != nil {
		return fail(r.explain(d, err))
	}
	qp := newQP(d, h, opt.Type, maker, "an RSS QP has no queues")
	qp.pd, qp.rss = pd, r.Table
	qp.node.initNumbered("rss qp", d.Name(), nodes...)
	qp.sq.errs.init(qp)
	qp.rq.errs.init(qp)
	d.register(h, qp)
	life.Watch(qp, &qp.life)
	return qp, nil
}

// check reports mistakes that are mistakes on every device, and features that this device does not report.
func (r *RSSOptions) check(pd *PD, send, recv *CQ, opt *QPOptions) error {
	bad := func(arg, got, want string) error { return &ArgError{Arg: arg, Got: got, Want: want} }
	switch {
	case opt.Type != RawPacket:
		t := opt.Type
		if t == 0 {
			t = RC
		}
		return bad("Type", t.String(), "RawPacket with RSS")
	case send != nil, recv != nil:
		return bad("CQs", "set", "nil with RSS: frames complete on the CQs of the WQs")
	case opt.SRQ != nil:
		return bad("SRQ", "set", "nil with RSS: frames go to the WQs")
	case opt.Raw != RawOptions{}, opt.SendOps != 0, opt.MaxSendWR > 0, opt.MaxRecvWR > 0, opt.MaxInline > 0,
		opt.MaxSendSGE > 0, opt.MaxRecvSGE > 0, opt.SignalAll:
		return bad("QPOptions", "sizes or options of queues", "Type and RSS alone: an RSS QP has no queues")
	case r.Table == nil:
		return bad("RSS.Table", "nil", "an RWQIndTable of the same Device")
	case r.Table.dev != pd.dev:
		return bad("RSS.Table", "one of another Device", "an RWQIndTable of the same Device")
	case r.Function&(r.Function-1) != 0:
		return bad("RSS.Function", r.Function.String(), "one function")
	case len(r.Key) == 0:
		return bad("RSS.Key", "0 bytes", fmt.Sprintf("%d bytes, or nil for a default", toeplitzKey))
	case len(r.Key) > math.MaxUint8:
		return &LimitError{What: "rss key bytes", Asked: uint64(len(r.Key)), Limit: math.MaxUint8,
			Where: "a field of 8 bits"}
	case r.Fields == 0 && len(r.Table.wqs) > 1:
		return bad("RSS.Fields", "0", fmt.Sprintf("fields to hash, with a table of %d places", len(r.Table.wqs)))
	}
	ex := pd.dev.attr.Ex
	if ex == nil || ex.RSS.QPTypes == 0 {
		return nil
	}
	lacks := func(feature, need string) error {
		return &UnsupportedError{Feature: feature, Need: need, Have: pd.dev.Name() + " (DeviceAttrEx.RSS)"}
	}
	switch odd := r.Fields &^ ex.RSS.HashFields; {
	case ex.RSS.HashFunctions&r.Function == 0:
		return lacks("the hash function "+r.Function.String(), "one of "+ex.RSS.HashFunctions.String())
	case odd != 0:
		return lacks("a hash of "+odd.String(), "fields of "+ex.RSS.HashFields.String())
	}
	return nil
}

// explain returns what is likely wrong with what a device refused.
func (r *RSSOptions) explain(d *Device, err error) error {
	const v4, v6 = HashSrcIPv4 | HashDstIPv4, HashSrcIPv6 | HashDstIPv6
	const tcp, udp = HashSrcPortTCP | HashDstPortTCP, HashSrcPortUDP | HashDstPortUDP
	if !errors.Is(err, errInvalid) {
		return d.explainRSS(err)
	}
	var hints []error
	if len(r.Key) != toeplitzKey {
		hints = append(hints, &ArgError{Arg: "RSS.Key", Got: fmt.Sprintf("%d bytes", len(r.Key)),
			Want: fmt.Sprintf("%d bytes on mlx5", toeplitzKey)})
	}
	if f := r.Fields; f&v4 != 0 && f&v6 != 0 || f&tcp != 0 && f&udp != 0 {
		hints = append(hints, &ArgError{Arg: "RSS.Fields", Got: f.String(),
			Want: "one version of IP and one protocol: an RSS QP for each, with a steering rule that selects it"})
	}
	return errors.Join(append(hints, err)...)
}

// explainRSS returns what RSS needs.
func (d *Device) explainRSS(err error) error {
	return d.v.explainFrames(err, "RSS", UnsupportedError{Feature: "RSS",
		Need: "a device with RawPacket among DeviceAttrEx.RSS.QPTypes",
		Have: d.Name() + "; use QPs of type RawPacket, with a steering rule for each"})
}

// RSS returns the table of an RSS QP, nil for any other.
func (qp *QP) RSS() *RWQIndTable { return qp.rss }

// enterStates is enter for what an RSS QP does not have.
func (qp *QP) enterStates(op string) error {
	if err := qp.enter(op); err != nil || qp.rss == nil {
		return err
	}
	qp.leave()
	return &OpError{Op: op, Object: qp.name, Err: &UnsupportedError{Feature: "states and attributes of an RSS QP",
		Need: "WQ.Modify for the WQs of its table", Have: "a QP that steering rules may lead to as it is"}}
}

var errRSS = &UnsupportedError{Feature: "posting to an RSS QP", Need: "WQ.PostRecv for receives, a QP of type " +
	"RawPacket without RSS for sends", Have: "a QP without queues"}
