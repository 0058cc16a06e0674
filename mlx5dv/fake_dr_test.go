package mlx5dv

import (
	"bytes"
	"errors"
	"io"
	"syscall"
	"testing"

	"github.com/pureverbs/pureverbs/ibv"
)

func fakeDirectRules(t *testing.T, dev *ibv.Device) {
	d := must(CreateDRDomain(dev, DRDomainFDB))(t)
	given(t, "a domain", "02000000")
	ok(t, d.Sync(DRSyncSoftware|DRSyncMemory))
	if lastArg(t, 0) != 5 {
		t.Errorf("sync of %#x", lastArg(t, 0))
	}
	refuseNext(t, syscall.EOPNOTSUPP)
	wantUnsupported(t, "sync", d.Sync(DRSyncHardware))
	wantArg(t, "an unknown sync", "flags", d.Sync(8))
	ok(t, d.SetReclaimDeviceMemory(true))
	if lastArg(t, 0) != 11 {
		t.Error("memory is not reclaimed")
	}
	ok(t, d.AllowDuplicateRules(false))
	if lastArg(t, 0) != 20 {
		t.Error("duplicates are allowed")
	}
	tab := must(d.CreateTable(5))(t)
	given(t, "a table", "05000000")
	if tab.Level() != 5 {
		t.Errorf("level %d", tab.Level())
	}
	_, err := d.CreateTable(-1)
	wantArg(t, "a table below the root", "level", err)
	m := must(tab.CreateMatcher(9, &Match{Misc3: MatchMisc3{ICMPType: 0xff}}))(t)
	given(t, "a matcher", "09000000 10000000"+param(4, 32, "ff"))
	ok(t, m.SetLayout(DRLayout{Resizable: true, LogRules: 12}))
	if lastArg(t, 0) != 3 || lastArg(t, 1) != 12 {
		t.Errorf("layout %#x, %d", lastArg(t, 0), lastArg(t, 1))
	}
	wantArg(t, "a layout", "LogRules", m.SetLayout(DRLayout{LogRules: 32}))
	_, err = tab.CreateMatcher(-1, nil)
	wantArg(t, "a priority", "Priority", err)
	drop, tag := must(d.Drop())(t), must(d.Tag(5))(t)
	r := must(m.CreateRule(&Match{Misc3: MatchMisc3{ICMPType: 8}}, tag, drop))(t)
	given(t, "a rule", param(4, 32, "08")+"02000000")
	for what, f := range map[string]func(io.Writer) error{"domain": d.Dump, "table": tab.Dump, "matcher": m.Dump,
		"rule": r.Dump} {
		var b bytes.Buffer
		ok(t, f(&b))
		if b.String() != "dump of a "+what+"\n" {
			t.Errorf("the dump of a %s is %q", what, b.String())
		}
		refuseNext(t, syscall.EIO)
		wantError(t, f(&b), syscall.EIO, "dump")
		wantError(t, f(badWriter{}), io.ErrClosedPipe, "writing the dump")
	}
	var be *ibv.BusyError
	for _, o := range []interface{ Close() error }{dev, d, tab, m, drop, tag} {
		if err := o.Close(); !errors.As(err, &be) {
			t.Errorf("closing %v, which is in use: %v", o, err)
		}
	}

	other := must(CreateDRDomain(dev, DRDomainNICRx))(t)
	foreign := must(other.Drop())(t)
	for _, c := range []struct {
		v       *Match
		actions []*DRAction
		want    []string
	}{
		{&Match{Misc3: MatchMisc3{ICMPCode: 1}}, nil, []string{"value", "Misc3.ICMPCode"}},
		{nil, []*DRAction{nil}, []string{"actions[0] is nil"}},
		{nil, []*DRAction{drop, foreign}, []string{"actions[1]", "another DRDomain"}},
		{nil, make([]*DRAction, 17), []string{"dr actions"}},
	} {
		_, err := m.CreateRule(c.v, c.actions...)
		wantError(t, err, syscall.EINVAL, c.want...)
	}
	refuseNext(t, syscall.EOPNOTSUPP)
	_, err = m.CreateRule(nil, drop)
	wantUnsupported(t, "a rule", err)
	for _, o := range []interface{ Close() error }{foreign, other, r, drop, tag, m, tab, d} {
		ok(t, o.Close())
		ok(t, o.Close())
	}
	_, err = m.CreateRule(nil, drop)
	wantError(t, err, ibv.ErrClosed)
	_, err = d.CreateTable(0)
	wantError(t, err, ibv.ErrClosed)
	wantError(t, d.Dump(&bytes.Buffer{}), ibv.ErrClosed)
}

// badWriter takes nothing.
type badWriter struct{}

func (badWriter) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

func fakeDRActions(t *testing.T, dev *ibv.Device) {
	d := closing(t, must(CreateDRDomain(dev, DRDomainNICRx))(t))
	second := closing(t, must(CreateDRDomain(dev, DRDomainNICTx))(t))
	root, above := closing(t, must(d.CreateTable(0))(t)), closing(t, must(d.CreateTable(1))(t))
	foreign := closing(t, must(second.CreateTable(1))(t))
	foreignAction := closing(t, must(second.Drop())(t))
	obj := closing(t, must(CreateDevXObject(dev, cmd(0x939, 16), make([]byte, 16)))(t))
	qp := rawQP(t, dev)
	drop := closing(t, must(d.Drop())(t))
	enc := closing(t, must(d.Reformat(false, ReformatL2ToTunnel, make([]byte, 14)))(t))
	meter := DRMeter{Next: above, Active: true, RegCIndex: 2, Param: []byte{1, 2, 3, 4}}
	for _, c := range []struct {
		name string
		make func() (*DRAction, error)
		want string
	}{
		{"drop", d.Drop, "01000000"},
		{"miss", d.DefaultMiss, "02000000"},
		{"pop", d.PopVLAN, "03000000"},
		{"tag", func() (*DRAction, error) { return d.Tag(0xabcdef) }, "efcdab00"},
		{"qp", func() (*DRAction, error) { return d.ToQP(qp) }, "04000000"},
		{"table", func() (*DRAction, error) { return d.ToTable(above) }, "05000000"},
		{"root", func() (*DRAction, error) { return d.ToRootTable(root, 3) }, "03000000"},
		{"vport", func() (*DRAction, error) { return d.ToVport(0xfffe) }, "feff0000"},
		{"port", func() (*DRAction, error) { return d.ToIBPort(2) }, "02000000"},
		{"tir", func() (*DRAction, error) { return d.ToTIR(obj) }, "06000000"},
		{"count", func() (*DRAction, error) { return d.Count(obj, 17) }, "11000000"},
		{"aso", func() (*DRAction, error) { return d.ASO(obj, DRASO{1, 2, 3}) }, "01000000 02000000 03000000"},
		{"header", func() (*DRAction, error) { return d.ModifyHeader(true, SetHeader(FieldTTL, 9)) },
			"01000000 100a000800000009"},
		{"reformat", func() (*DRAction, error) { return d.Reformat(false, ReformatL2FromTunnel, nil) },
			"00000000 00000000"},
		{"push", func() (*DRAction, error) { return d.PushVLAN(0x88a8, 0x6007) }, "88a86007"},
		{"array", func() (*DRAction, error) { return d.ToArray(DRDest{Action: drop}, DRDest{drop, enc}) },
			"02000000 00000000 01000000"},
		{"meter", func() (*DRAction, error) { return d.Meter(&meter) }, "01000000 02000000 01020304"},
		{"sample", func() (*DRAction, error) {
			return d.Sample(&DRSampler{Ratio: 100, Next: above, Actions: []*DRAction{drop},
				Set: SetHeader(FieldRegC, 1)})
		}, "64000000 01000000 1051000000000001"},
	} {
		a, err := c.make()
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		given(t, c.name, c.want)
		switch c.name {
		case "meter":
			ok(t, a.ModifyMeter(&meter, 0x0102))
			given(t, "modified meter", "01000000 0000000000000102 01020304")
			wantArg(t, "a meter", "Param", a.ModifyMeter(&DRMeter{}, 1))
		case "aso":
			ok(t, a.ModifyASO(DRASO{4, 5, 6}))
			if lastArg(t, 0) != 4 || lastArg(t, 1) != 5 || lastArg(t, 2) != 6 {
				t.Error("ASO was not modified")
			}
		}
		ok(t, a.Close())
		refuseNext(t, syscall.EOPNOTSUPP)
		_, err = c.make()
		wantUnsupported(t, c.name, err)
	}
	for _, c := range []struct {
		name string
		make func() (*DRAction, error)
		want []string
	}{
		{"tag", func() (*DRAction, error) { return d.Tag(1 << 24) }, []string{"24 bits"}},
		{"qp", func() (*DRAction, error) { return d.ToQP(nil) }, []string{"qp is nil"}},
		{"no table", func() (*DRAction, error) { return d.ToTable(nil) }, []string{"table is nil"}},
		{"root", func() (*DRAction, error) { return d.ToTable(root) }, []string{"level 0", "above level 0"}},
		{"table", func() (*DRAction, error) { return d.ToTable(foreign) }, []string{"another DRDomain"}},
		{"level", func() (*DRAction, error) { return d.ToRootTable(above, 0) }, []string{"level 1", "of level 0"}},
		{"priority", func() (*DRAction, error) { return d.ToRootTable(root, -1) }, []string{"Priority"}},
		{"vport", func() (*DRAction, error) { return d.ToVport(1 << 16) }, []string{"vport", "16 bits"}},
		{"port", func() (*DRAction, error) { return d.ToIBPort(-1) }, []string{"port is -1"}},
		{"tir", func() (*DRAction, error) { return d.ToTIR(nil) }, []string{"object is nil"}},
		{"count", func() (*DRAction, error) { return d.Count(nil, 0) }, []string{"object is nil"}},
		{"aso", func() (*DRAction, error) { return d.ASO(nil, DRASO{}) }, []string{"object is nil"}},
		{"header", func() (*DRAction, error) { return d.ModifyHeader(true) }, []string{"actions is empty"}},
		{"reformat", func() (*DRAction, error) { return d.Reformat(true, ReformatL2ToTunnel, nil) }, []string{"data"}},
		{"push", func() (*DRAction, error) { return d.PushVLAN(0x800, 1) }, []string{"0x800"}},
		{"array of one", func() (*DRAction, error) { return d.ToArray(DRDest{Action: drop}) }, []string{"two or more"}},
		{"array", func() (*DRAction, error) {
			return d.ToArray(DRDest{Action: drop}, DRDest{foreignAction, foreignAction})
		},
			[]string{"dests[1].Action", "dests[1].Reformat", "another DRDomain"}},
		{"meter", func() (*DRAction, error) { return d.Meter(nil) }, []string{"Param"}},
		{"sample", func() (*DRAction, error) { return d.Sample(&DRSampler{}) }, []string{"Ratio"}},
		{"sample to root", func() (*DRAction, error) {
			return d.Sample(&DRSampler{Ratio: 1, Next: root, Actions: []*DRAction{nil}})
		}, []string{"above level 0", "Actions[0] is nil"}},
	} {
		_, err := c.make()
		wantError(t, err, syscall.EINVAL, append(c.want, "create dr action")...)
	}
	ok(t, d.LinkASO(obj, second, DRASO{Flags: 7, RegC: 3}))
	if lastArg(t, 0) != 7 || lastArg(t, 1) != 3 {
		t.Error("ASO was not linked")
	}
	ok(t, d.UnlinkASO(obj))
	if lastArg(t, 0) != 99 {
		t.Error("ASO was not unlinked")
	}
	wantArg(t, "a link to itself", "peer", d.LinkASO(obj, d, DRASO{}))
	wantArg(t, "no object", "object", d.UnlinkASO(nil))
}
