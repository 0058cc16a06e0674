package mlx5dv

import (
	"bytes"
	"encoding/hex"
	"errors"
	"strings"
	"syscall"
	"testing"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/bind"
	"github.com/pureverbs/pureverbs/internal/cmem"
	"github.com/pureverbs/pureverbs/loader"
)

// given checks what the last call was given: numbers of 32 bits, and the bytes between them, in hex.
func given(t *testing.T, what, want string) {
	t.Helper()
	lib := must(loader.Open(loader.MLX5))(t)
	b := cmem.Slice[byte](must(lib.Symbol("fake_given"))(t), fakeCall(t, "fake_given_size"))
	if got := hex.EncodeToString(b); got != strings.ReplaceAll(want, " ", "") {
		t.Errorf("%s: C was given\n%s, want\n%s", what, got, want)
	}
}

// refuseNext has the next call fail.
func refuseNext(t *testing.T, e syscall.Errno) { t.Helper(); fakeCall(t, "fake_refuse", uintptr(e)) }

// param is a buffer of a Match whose part has some bytes at a place, the rest being 0.
func param(part, at int, bytes string) string {
	s := strings.Repeat("00", shortMatch)
	i := 2 * (part*partSize + at)
	return s[:i] + bytes + s[i+len(bytes):]
}

func rawQP(t *testing.T, dev *ibv.Device) *ibv.QP {
	t.Helper()
	pd := closing(t, must(dev.AllocPD())(t))
	cq := closing(t, must(dev.CreateCQ(4, &ibv.CQOptions{DataPath: ibv.DataPathOps}))(t))
	return closing(t, must(pd.CreateQP(cq, cq, &ibv.QPOptions{Type: ibv.RawPacket}))(t))
}

func TestFakeSteering(t *testing.T) {
	onFake(t, func(t *testing.T) {
		withFake(t, "matchers", fakeMatchers)
		withFake(t, "flows", fakeFlows)
		withFake(t, "actions", fakeActions)
		withFake(t, "direct rules", fakeDirectRules)
		withFake(t, "dr actions", fakeDRActions)
		withFake(t, "refusals", fakeSteeringRefusals)
		withFake(t, "old library", fakeOldSteering)
	})
}

func fakeMatchers(t *testing.T, dev *ibv.Device) {
	mask := Match{Misc: MatchMisc{VXLANVNI: 0x123456}}
	for _, c := range []struct {
		o    FlowMatcherOptions
		want string // flags, priority, criteria, comp_mask, ft_type, ib_port
	}{
		{FlowMatcherOptions{Mask: mask, Priority: 3}, "00000000 03000000 02000000 00000000 00000000 00000000"},
		{FlowMatcherOptions{Mask: mask, Table: TableNICTx}, "04000000 00000000 02000000 00000000 00000000 00000000"},
		{FlowMatcherOptions{Mask: mask, Table: TableFDB}, "00000000 00000000 02000000 01000000 02000000 00000000"},
		{FlowMatcherOptions{Mask: mask, Table: TableRDMATransportTx, IBPort: 2},
			"00000000 00000000 02000000 03000000 06000000 02000000"},
	} {
		m := must(CreateFlowMatcher(dev, &c.o))(t)
		given(t, "a matcher of "+c.o.Table.String(), c.want+param(1, 20, "123456"))
		if m.Device() != dev || !strings.HasPrefix(m.String(), "flow matcher of ") {
			t.Errorf("%v of %v", m, m.Device())
		}
		ok(t, m.Close())
		ok(t, m.Close())
		_, err := m.CreateFlow(nil, FlowDrop{})
		wantError(t, err, ibv.ErrClosed)
	}
	ok(t, must(CreateFlowMatcher(dev, nil))(t).Close())
	given(t, "no options", strings.Repeat("00", 24)+param(0, 0, ""))
	a := must(CreateSteeringAnchor(dev, TableNICTx, 7))(t)
	given(t, "an anchor", "01000000 07000000")
	if a.ID() != 0x1234 {
		t.Errorf("anchor %#x", a.ID())
	}
	ok(t, a.Close())
}

func fakeFlows(t *testing.T, dev *ibv.Device) {
	qp := rawQP(t, dev)
	ttl := closing(t, must(CreateHeaderAction(dev, TableNICRx, SetHeader(FieldTTL, 1)))(t))
	obj := closing(t, must(CreateDevXObject(dev, cmd(0x939, 16), make([]byte, 16)))(t))
	m := closing(t, must(CreateFlowMatcher(dev, &FlowMatcherOptions{Mask: Match{Outer: MatchHeaders{TTL: 0xff}}}))(t))
	value := &Match{Outer: MatchHeaders{TTL: 64}}
	all := []FlowAction{FlowToQP{qp}, FlowTag(0x123456), FlowApply{ttl}, FlowCount{Counter: obj}}
	const want = "00000000 04000000 56341200 03000000 06000000 00000000"
	try := func(what, want string, actions ...FlowAction) {
		t.Helper()
		f := must(m.CreateFlow(value, actions...))(t)
		given(t, what, param(0, 27, "40")+want)
		var be *ibv.BusyError
		if err := m.Close(); !errors.As(err, &be) {
			t.Errorf("closing a matcher with a rule: %v", err)
		}
		ok(t, f.Close())
		ok(t, f.Close())
	}
	try("all actions", want, all...)
	try("an offset", "01000000 08000000 09000000", FlowDrop{}, FlowCount{obj, 9})
	try("a miss", "07000000", FlowMiss{})
	try("to DevX", "05000000 00000000", FlowToDevX{obj})
	try("nothing", "")
	// A library whose actions have 16 bytes.
	defer bind.Hide("v63", "__mlx5dv_create_flow")()
	try("short actions", want, all...)
	_, err := m.CreateFlow(value, FlowDrop{}, FlowCount{obj, 9})
	wantError(t, err, ibv.ErrNotSupported, "v60")

	closed := must(CreateHeaderAction(dev, TableNICRx, SetHeader(FieldTTL, 1)))(t)
	ok(t, closed.Close())
	other := closing(t, must(ibv.Open("fake1"))(t))
	otherQP := rawQP(t, other)
	ud := closing(t, must(qp.PD().CreateQP(qp.SendCQ(), qp.SendCQ(), &ibv.QPOptions{Type: ibv.UD}))(t))
	for _, c := range []struct {
		v       *Match
		actions []FlowAction
		want    []string
	}{
		{&Match{Outer: MatchHeaders{DSCP: 1}}, nil, []string{"value", "Outer.DSCP"}},
		{value, []FlowAction{nil}, []string{"actions[0] is nil"}},
		{value, []FlowAction{FlowToQP{}}, []string{"actions[0].QP is nil"}},
		{value, []FlowAction{FlowToQP{ud}}, []string{"actions[0].QP", "of type UD"}},
		{value, []FlowAction{FlowToQP{otherQP}}, []string{"another Device"}},
		{value, []FlowAction{FlowDrop{}, FlowMiss{}}, []string{"actions[1] is a second destination"}},
		{value, []FlowAction{FlowToQP{qp}, FlowToDevX{obj}}, []string{"actions[1] is a second destination"}},
		{value, []FlowAction{FlowTag(1), FlowTag(1)}, []string{"actions[1] is a second FlowTag"}},
		{value, []FlowAction{FlowTag(1 << 24)}, []string{"actions[0]", "24 bits"}},
		{value, []FlowAction{FlowApply{}}, []string{"actions[0].Action is nil"}},
		{value, []FlowAction{FlowToDevX{}}, []string{"object is nil"}},
		{value, []FlowAction{FlowCount{}}, []string{"object is nil"}},
		{value, make([]FlowAction, 9), []string{"flow actions"}},
	} {
		_, err := m.CreateFlow(c.v, c.actions...)
		wantError(t, err, syscall.EINVAL, c.want...)
	}
	_, err = m.CreateFlow(value, FlowApply{closed})
	wantError(t, err, ibv.ErrClosed)
	for e, word := range map[syscall.Errno]string{syscall.EPERM: "CAP_NET_RAW", syscall.EEXIST: "same matches",
		syscall.EIO: "create flow"} {
		refuseNext(t, e)
		_, err = m.CreateFlow(value, all...)
		wantError(t, err, e, word)
	}
	refuseNext(t, syscall.EOPNOTSUPP)
	_, err = m.CreateFlow(value, all...)
	wantUnsupported(t, "a rule", err)
}

func fakeActions(t *testing.T, dev *ibv.Device) {
	a := must(CreateHeaderAction(dev, TableNICTx, SetHeader(FieldUDPDstPort, 53), AddHeader(FieldTTL, 1)))(t)
	given(t, "header action", "01000000 100c001000000035 200a000000000001")
	ok(t, a.Close())
	head := bytes.Repeat([]byte{0xab}, 14)
	a = must(CreateReformatAction(dev, TableNICRx, ReformatL3FromTunnel, head))(t)
	given(t, "reformat action", "02000000 00000000"+hex.EncodeToString(head))
	ok(t, a.Close())
	a = must(CreateReformatAction(dev, TableNICRx, ReformatL2FromTunnel, []byte{}))(t)
	given(t, "reformat without data", "00000000 00000000")
	ok(t, a.Close())
	a = must(CreateESPAction(dev, &ibv.ESPAction{SPI: 7, AESGCM: &ibv.ESPKey{Key: make([]byte, 16), ICVLen: 16}}))(t)
	given(t, "esp action", "07000000"+strings.Repeat("00", 20)+"01000000 01000000")
	ok(t, a.Close())
	_, err := CreateESPAction(dev, &ibv.ESPAction{})
	wantArg(t, "an ESP action without a key", "AESGCM", err)
	_, err = CreateHeaderAction(dev, TableNICRx)
	wantArg(t, "no changes", "actions", err)
	_, err = CreateHeaderAction(dev, TableNICRx, make([]HeaderAction, 1<<13)...)
	_, err2 := CreateReformatAction(dev, TableNICTx, ReformatL2ToTunnel, make([]byte, 1<<16))
	for _, err := range []error{err, err2} { // the kernel takes 16 bits of a length
		var l *ibv.LimitError
		if !errors.As(err, &l) || l.Limit >= l.Asked || l.Asked != 1<<13 && l.Asked != 1<<16 {
			t.Errorf("%v, want a LimitError", err)
		}
	}
	_, err = CreateReformatAction(dev, TableNICRx, ReformatL2FromTunnel, head)
	wantArg(t, "data of no use", "data", err)
	for _, f := range []func() error{
		func() error { _, err := CreateHeaderAction(dev, TableNICRx, SetHeader(FieldTTL, 1)); return err },
		func() error { _, err := CreateReformatAction(dev, TableNICRx, ReformatL2FromTunnel, nil); return err },
		func() error { _, err := CreateFlowMatcher(dev, nil); return err },
		func() error { _, err := CreateSteeringAnchor(dev, TableNICRx, 0); return err },
		func() error { _, err := CreateDRDomain(dev, DRDomainNICRx); return err },
	} {
		refuseNext(t, syscall.EOPNOTSUPP)
		wantUnsupported(t, "an action", f())
		refuseNext(t, syscall.EIO)
		wantError(t, f(), syscall.EIO)
	}
}

func fakeSteeringRefusals(t *testing.T, dev *ibv.Device) {
	matcher := func(o FlowMatcherOptions) error { _, err := CreateFlowMatcher(dev, &o); return err }
	wantArg(t, "a negative priority", "Priority", matcher(FlowMatcherOptions{Priority: -1}))
	wantError(t, matcher(FlowMatcherOptions{Priority: 1 << 16}), syscall.EINVAL, "flow priority", "65535")
	wantArg(t, "an unknown table", "Table", matcher(FlowMatcherOptions{Table: 7}))
	wantArg(t, "a port of no use", "IBPort", matcher(FlowMatcherOptions{IBPort: 1}))
	wantError(t, matcher(FlowMatcherOptions{Mask: Match{Outer: MatchHeaders{VLANPrio: 8}}}), syscall.EINVAL,
		"Mask.Outer.VLANPrio")
	refuseNext(t, syscall.ENOMEM)
	wantError(t, matcher(FlowMatcherOptions{Priority: 16}), syscall.ENOMEM, "priority 16")
	_, err := CreateSteeringAnchor(dev, 9, -1)
	wantError(t, err, syscall.EINVAL, "FlowTable(9)", "Priority")
	for _, f := range []func() error{
		func() error { _, err := CreateFlowMatcher(nil, nil); return err },
		func() error { _, err := CreateHeaderAction(nil, 0, SetHeader(FieldTTL, 1)); return err },
		func() error { _, err := CreateReformatAction(nil, 0, 0, nil); return err },
		func() error { _, err := CreateSteeringAnchor(nil, 0, 0); return err },
		func() error { _, err := CreateDRDomain(nil, 0); return err },
	} {
		wantError(t, f(), syscall.EINVAL, "dev is nil")
	}
}

// Functions that an old library lacks say which release has them.
func fakeOldSteering(t *testing.T, dev *ibv.Device) {
	defer bind.Hide("v99", "mlx5dv_create_flow_matcher", "mlx5dv_create_flow_action_modify_header",
		"mlx5dv_create_flow_action_packet_reformat", "mlx5dv_create_steering_anchor", "mlx5dv_dr_domain_create")()
	for _, f := range []func() error{
		func() error { _, err := CreateHeaderAction(dev, TableNICRx, SetHeader(FieldTTL, 1)); return err },
		func() error { _, err := CreateReformatAction(dev, TableNICRx, ReformatL2FromTunnel, nil); return err },
		func() error { _, err := CreateFlowMatcher(dev, nil); return err },
		func() error { _, err := CreateSteeringAnchor(dev, TableNICRx, 0); return err },
		func() error { _, err := CreateDRDomain(dev, DRDomainNICRx); return err },
	} {
		err := f()
		wantUnsupported(t, "an old library", err)
		wantError(t, err, ibv.ErrNotSupported, "v99")
	}
}
