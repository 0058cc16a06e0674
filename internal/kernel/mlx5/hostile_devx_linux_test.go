package mlx5

import (
	"errors"
	"fmt"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/cmem"
	"github.com/pureverbs/pureverbs/internal/kernel/uverbs"
)

// useOwn makes one of each object that mlx5 alone has.
func useOwn(v *Verbs, ctx, pd, cq, srq handle, later func(error, func() error) bool) (errs []error) {
	r := v.Rings()
	errs = append(errs, useCounters(v, ctx, pd, cq, later)...)
	errs = append(errs, usePaths(v, ctx, pd, cq, later)...)
	in, out := make([]byte, 16), make([]byte, 16)
	dct, err := r.CreateQP(ctx, &abi.QPInitAttrEx{QPType: abi.IBV_QPT_DRIVER, SendCQ: cq, RecvCQ: cq, SRQ: srq, PD: pd,
		CompMask: abi.IBV_QP_INIT_ATTR_PD}, &abi.MLX5DVQPInitAttr{CompMask: abi.MLX5DV_QP_INIT_ATTR_MASK_DC,
		DCInitAttr: abi.MLX5DVDCInitAttr{DCType: abi.MLX5DV_DCTYPE_DCT, DCTAccessKey: 7}})
	if later(err, func() error { return v.DestroyQP(dct) }) {
		err := v.ModifyQP(dct, &abi.QPAttr{QPState: abi.IBV_QPS_RTR}, abi.IBV_QP_STATE)
		if n := v.QPNumber(dct); n >= 1<<24 || err == nil && n == 0 {
			err = errors.New("a number that no DCT has")
		}
		errs = append(errs, err)
	}
	errs = append(errs, useMkeys(v, ctx, pd, later)...)
	copies, err := r.CreateQP(ctx, &abi.QPInitAttrEx{QPType: abi.IBV_QPT_RC, SendCQ: cq, RecvCQ: cq, SRQ: srq, PD: pd,
		CompMask: abi.IBV_QP_INIT_ATTR_PD, Cap: abi.QPCap{MaxSendWR: 4, MaxSendSGE: 1}}, &abi.MLX5DVQPInitAttr{
		CompMask:    abi.MLX5DV_QP_INIT_ATTR_MASK_QP_CREATE_FLAGS | abi.MLX5DV_QP_INIT_ATTR_MASK_SEND_OPS_FLAGS,
		CreateFlags: abi.MLX5DV_QP_CREATE_SIG_PIPELINING, SendOpsFlags: abi.MLX5DV_QP_EX_WITH_MEMCPY})
	if later(err, func() error { return v.DestroyQP(copies) }) {
		errs = append(errs, v.ModifyQP(copies, &abi.QPAttr{QPState: abi.IBV_QPS_INIT}, abi.IBV_QP_STATE))
	}
	obj, err := r.DevXObjCreate(ctx, in, out)
	if later(err, func() error { return r.DevXObjDestroy(obj) }) {
		errs = append(errs, r.DevXObjQuery(obj, in, out), r.DevXObjModify(obj, in, out))
	}
	umem, _, err := r.DevXUmemReg(ctx, 4096, 4096, 1)
	later(err, func() error { return r.DevXUmemDereg(umem) })
	for _, kind := range []uint32{abi.MLX5DV_UAR_ALLOC_TYPE_BF, abi.MLX5DV_UAR_ALLOC_TYPE_NC,
		abi.MLX5DV_UAR_ALLOC_TYPE_NC_DEDICATED} {
		u, uar, err := r.DevXAllocUAR(ctx, kind)
		if errors.Is(err, syscall.EOPNOTSUPP) {
			continue // registers that come with the context
		}
		if later(err, func() error { return r.DevXFreeUAR(uar) }) {
			cmem.Slice[byte](u.RegAddr, 8)[0] = 1 // it is mapped
		}
	}
	page, vr, err := r.AllocVAR(ctx)
	if later(err, func() error { return r.FreeVAR(vr) }) && checkPage("", uint64(page.MmapOff), page.Length) != nil {
		errs = append(errs, errors.New("a page that nobody can map"))
	}
	pp, _, err := r.PPAlloc(ctx, in, 0)
	later(err, func() error { return r.PPFree(pp) })
	events, _, err := r.DevXCreateEventChannel(ctx, 0)
	if later(err, func() error { return r.DevXDestroyEventChannel(events) }) {
		errs = append(errs, second(r.DevXGetEvent(events, make([]byte, 64))))
	}
	answers, _, err := r.DevXCreateCmdComp(ctx)
	if later(err, func() error { return r.DevXDestroyCmdComp(answers) }) {
		errs = append(errs, r.DevXGetAsyncCmdComp(answers, make([]byte, 64)))
	}
	mask := make([]byte, 64)
	matcher, err := r.CreateFlowMatcher(ctx, &abi.MLX5DVFlowMatcherAttr{}, mask)
	if later(err, func() error { return r.DestroyFlowMatcher(matcher) }) {
		rule, err := r.CreateFlow(matcher, mask, []abi.MLX5DVFlowActionAttr{{Type: abi.MLX5DV_FLOW_ACTION_DROP}})
		later(err, func() error { return v.DestroyFlow(ctx, rule) })
	}
	header, err := r.CreateFlowActionModifyHeader(ctx, []uint64{1}, 0)
	later(err, func() error { return v.DestroyFlowAction(ctx, header) })
	reformat, err := r.CreateFlowActionPacketReformat(ctx, mask, 0, 0)
	later(err, func() error { return v.DestroyFlowAction(ctx, reformat) })
	anchor, _, err := r.CreateSteeringAnchor(ctx, &abi.MLX5DVSteeringAnchorAttr{})
	later(err, func() error { return r.DestroySteeringAnchor(anchor) })
	return append(errs, second(r.DevXQueryEQN(ctx, 0)))
}

// useCounters makes counters and two rules that use them.
func useCounters(v *Verbs, ctx, pd, cq handle, later func(error, func() error) bool) (errs []error) {
	raw, err := v.CreateQP(pd, &abi.QPInitAttrEx{SendCQ: cq, RecvCQ: cq, QPType: abi.IBV_QPT_RAW_PACKET,
		Cap: abi.QPCap{MaxRecvWR: 4, MaxRecvSGE: 1}})
	if !later(err, func() error { return v.DestroyQP(raw) }) {
		return nil
	}
	n, err := v.CreateCounters(ctx)
	if !later(err, func() error { return v.DestroyCounters(ctx, n) }) {
		return nil
	}
	spec := &abi.FlowSpecCounterAction{Type: abi.IBV_FLOW_SPEC_ACTION_COUNT, Size: 16, Counters: n}
	attr := &abi.FlowAttr{NumOfSpecs: 1, Port: 1}
	b := append(uverbs.Bytes(attr), uverbs.Bytes(spec)...)
	if _, err := v.CreateFlow(ctx, raw, b); err != syscall.EINVAL {
		errs = append(errs, fmt.Errorf("a rule with counters that count nothing: %v", err))
	}
	errs = append(errs, v.AttachCountersPointFlow(ctx, n, &abi.CounterAttachAttr{Index: 3}, 0))
	for range 2 {
		rule, err := v.CreateFlow(ctx, raw, b)
		later(err, func() error { return v.DestroyFlow(ctx, rule) })
	}
	return append(errs, v.ReadCounters(ctx, n, make([]uint64, 4), 0))
}

// useMkeys makes an indirect key, logs in, and makes a key that encrypts.
func useMkeys(v *Verbs, ctx, pd handle, later func(error, func() error) bool) (errs []error) {
	r := v.Rings()
	attr := &abi.MLX5DVMkeyInitAttr{PD: pd, MaxEntries: 5, CreateFlags: knownMkeyFlags}
	mkey, key, err := r.CreateMkey(attr)
	if later(err, func() error { return r.DestroyMkey(mkey) }) && (key.LKey&0xff != 0 || key.RKey != key.LKey ||
		max(key.PSV[0], key.PSV[1]) >= 1<<24 || attr.MaxEntries != 8) {
		errs = append(errs, fmt.Errorf("a key %+v of %d entries", key, attr.MaxEntries))
	}
	state := uint32(0)
	if later(r.CryptoLogin(ctx, &abi.MLX5DVCryptoLoginAttr{}), func() error { return r.CryptoLogout(ctx) }) {
		errs = append(errs, r.CryptoLoginQueryState(ctx, &state))
		if err := r.CryptoLogin(ctx, &abi.MLX5DVCryptoLoginAttr{}); !errors.Is(err, syscall.EEXIST) {
			errs = append(errs, fmt.Errorf("a second login: %v", err))
		}
	}
	init := &abi.MLX5DVDEKInitAttr{PD: pd, HasKeytag: 1}
	dek, _, err := r.DEKCreate(ctx, init)
	if later(err, func() error { return r.DEKDestroy(dek) }) {
		var a abi.MLX5DVDEKAttr
		errs = append(errs, r.DEKQuery(dek, &a))
		if err == nil && a.State > abi.MLX5DV_DEK_STATE_ERROR && errs[len(errs)-1] == nil {
			errs = append(errs, fmt.Errorf("a key in state %d", a.State))
		}
	}
	if state > abi.MLX5DV_CRYPTO_LOGIN_STATE_INVALID {
		errs = append(errs, fmt.Errorf("a login in state %d", state))
	}
	return errs
}

// TestAnswers reads answers that no query asked for, and those of another length.
func TestAnswers(t *testing.T) {
	k := &fakeKernel{t: t}
	defer k.end()
	v, dev := k.device()
	ctx, err := v.OpenDevice(dev)
	if err != nil {
		t.Fatal(err)
	}
	defer v.CloseDevice(ctx)
	r := v.Rings()
	in := make([]byte, 16)
	obj, err := r.DevXObjCreate(ctx, in, make([]byte, 16))
	if err != nil {
		t.Fatal(err)
	}
	comp, _, err := r.DevXCreateCmdComp(ctx)
	if err != nil {
		t.Fatal(err)
	}
	file := k.pipes[len(k.pipes)-1]
	for _, tt := range []struct {
		name  string
		n     int    // bytes
		first byte   // of the number
		want  string // the field of the error
	}{
		{"right", 8 + 16, 5, ""},
		{"no number", 4, 5, "bytes of an event"},
		{"cut", 8 + 12, 5, "bytes of an answer"},
		{"longer", 8 + 20, 5, "bytes of an answer"},
		{"unknown", 8 + 16, 6, "number"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if err := r.DevXObjQueryAsync(obj, in, 16, 5, comp); err != nil {
				t.Fatal(err)
			}
			b := make([]byte, tt.n)
			b[0] = tt.first
			if _, err := unix.Write(file, b); err != nil {
				t.Fatal(err)
			}
			err := r.DevXGetAsyncCmdComp(comp, make([]byte, 64))
			var reply *uverbs.ReplyError
			if tt.want == "" && err != nil || tt.want != "" && (!errors.As(err, &reply) || reply.Field != tt.want) {
				t.Errorf("%v, want %q", err, tt.want)
			}
		})
	}
	if err := errors.Join(r.DevXDestroyCmdComp(comp), r.DevXObjDestroy(obj)); err != nil {
		t.Error(err)
	}
}

// TestStates reads states of a login and of a key that do not exist, and a refusal of a command that made an object.
func TestStates(t *testing.T) {
	for _, tt := range []struct {
		name      string
		at        int // the byte that is spoiled in long answers
		value     byte
		login, is error
	}{
		{"good", 0, 0, nil, nil},
		{"login", 16 + 16, 2, syscall.EINVAL, nil},
		{"key", 16 + 8, 2, nil, syscall.EINVAL},
		{"refused", 0, badParameter, syscall.EINVAL, syscall.EINVAL},
	} {
		t.Run(tt.name, func(t *testing.T) {
			k := &fakeKernel{t: t, spoil: func(_ *fakeKernel, _ string, b []byte) {
				if len(b) == generalHead+generalObject {
					b[tt.at] = tt.value
				}
			}}
			defer k.end()
			v, dev := k.device()
			ctx, err := v.OpenDevice(dev)
			pd, err2 := v.AllocPD(ctx)
			if err := errors.Join(err, err2); err != nil {
				t.Fatal(err)
			}
			defer v.CloseDevice(ctx)
			r, state := v.Rings(), uint32(9)
			err = r.CryptoLogin(ctx, &abi.MLX5DVCryptoLoginAttr{})
			dek, number, err2 := r.DEKCreate(ctx, &abi.MLX5DVDEKInitAttr{PD: pd})
			if err := errors.Join(err, err2); err != nil || number == 0 {
				t.Fatal(number, err)
			}
			if err := r.CryptoLoginQueryState(ctx, &state); err != tt.login || (state == 9) != (err != nil) {
				t.Errorf("a login in state %d, %v, want %v", state, err, tt.login)
			}
			if err := r.DEKQuery(dek, new(abi.MLX5DVDEKAttr)); err != tt.is {
				t.Errorf("a key: %v, want %v", err, tt.is)
			}
			if err := errors.Join(r.DEKDestroy(dek), r.CryptoLogout(ctx)); err != nil {
				t.Error(err)
			}
			if err := r.CryptoLogout(ctx); err != syscall.ENOENT {
				t.Errorf("a second logout: %v", err)
			}
			if err := r.CryptoLoginQueryState(ctx, &state); err != nil ||
				state != abi.MLX5DV_CRYPTO_LOGIN_STATE_NO_LOGIN {
				t.Errorf("after it: state %d, %v", state, err)
			}
		})
	}
	// The firmware refuses, and the kernel made an object nevertheless: it ends again.
	made, ended := 0, 0
	k := &fakeKernel{t: t}
	k.spoil = func(_ *fakeKernel, what string, b []byte) {
		if what == "new object" {
			made++
		} else if len(b) == 16 || len(b) == 32 {
			b[0] = badParameter
		}
	}
	defer k.end()
	v, dev := k.device()
	ctx, err := v.OpenDevice(dev)
	pd, err2 := v.AllocPD(ctx)
	if err := errors.Join(err, err2); err != nil {
		t.Fatal(err)
	}
	defer v.CloseDevice(ctx)
	made = 0
	k.destroyed = func() { ended++ }
	_, _, err = v.Rings().CreateMkey(&abi.MLX5DVMkeyInitAttr{PD: pd, CreateFlags: knownMkeyFlags})
	if !errors.Is(err, syscall.EINVAL) || made != 1 || ended != made {
		t.Errorf("a key: %v, %d made, %d ended", err, made, ended)
	}
	if err := v.Rings().CryptoLogin(ctx, &abi.MLX5DVCryptoLoginAttr{}); !errors.Is(err, syscall.EINVAL) || ended != 2 {
		t.Errorf("a login: %v, %d ended", err, ended)
	}
}
