package ibv

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// numbers returns the fields of an options struct whose type None fits, in the order of the struct.
func numbers(t reflect.Type) (names []string) {
	for i := range t.NumField() {
		if k := t.Field(i).Type.Kind(); k == reflect.Int || k == reflect.Int64 {
			names = append(names, t.Field(i).Name)
		}
	}
	return names
}

// noNone are the fields for which None has no meaning.
var noNone = map[string]bool{"CQOptions.CompVector": true, "ConnectOptions.RNRTimer": true, "SRQOptions.MaxTags": true,
	"SRQOptions.MaxTagOps": true}

// In every option whose 0 means a default, None is none, and other negative values are refused.
func TestFake_None(t *testing.T) {
	s := fakeSide(t, nil)
	unconnected := s.newQP(t, nil)
	connectOpt := func(get func(a *QPAttr) uint8) func(o *ConnectOptions) (int64, error) {
		return func(o *ConnectOptions) (int64, error) {
			qp := s.newQP(t, nil)
			ep := must(qp.Endpoint(1, 1))(t)
			if err := qp.Connect(ep, o); err != nil {
				return 0, err
			}
			a := connectAttrs(t, unconnected, o)
			return int64(get(&a)), nil
		}
	}
	qpOpt := func(get func(c QPCap) int) func(o *QPOptions) (int64, error) {
		return func(o *QPOptions) (int64, error) {
			qp, err := s.pd.CreateQP(s.cq, s.cq, o)
			if err != nil {
				return 0, err
			}
			closing(t, qp)
			return int64(get(qp.Cap())), nil
		}
	}
	srqOpt := func(get func(c SRQCap) int) func(o *SRQOptions) (int64, error) {
		return func(o *SRQOptions) (int64, error) {
			srq, err := s.pd.CreateSRQ(o)
			if err != nil {
				return 0, err
			}
			return int64(get(closing(t, srq).Cap())), nil
		}
	}
	wqOpt := func(get func(c WQCap) int) func(o *WQOptions) (int64, error) {
		return func(o *WQOptions) (int64, error) {
			cq := must(s.dev.CreateCQ(8, nil))(t)
			defer cq.Close()
			wq, err := s.pd.CreateWQ(cq, o)
			if err != nil {
				return 0, err
			}
			defer wq.Close()
			return int64(get(wq.Cap())), nil
		}
	}
	const refused = -1 // there is no queue for nothing
	rows := []noneRow{
		noneOf("RetryCount", "RetryCount", 7, 0, connectOpt(func(a *QPAttr) uint8 { return a.RetryCnt })),
		noneOf("RNRRetry", "RNRRetry", 7, 0, connectOpt(func(a *QPAttr) uint8 { return a.RNRRetry })),
		noneOf("MaxRdAtomic", "MaxRdAtomic", 16, 0, connectOpt(func(a *QPAttr) uint8 { return a.MaxRdAtomic })),
		noneOf("MaxDestRdAtomic", "MaxDestRdAtomic", 16, 0,
			connectOpt(func(a *QPAttr) uint8 { return a.MaxDestRdAtomic })),
		noneOf("HopLimit", "HopLimit", 64, 0, connectOpt(func(a *QPAttr) uint8 { return a.AV.HopLimit })),
		noneOf("AckTimeout", "AckTimeout", 14, 0, connectOpt(func(a *QPAttr) uint8 { return uint8(a.Timeout) })),
		noneOf("Spin", "Spin", int64(defaultSpin), None, func(o *CQOptions) (int64, error) {
			cq, err := s.dev.CreateCQ(8, o)
			if err != nil {
				return 0, err
			}
			return int64(closing(t, cq).spin), nil
		}),
		noneOf("MaxSendWR", "max_send_wr", 128, 0, qpOpt(func(c QPCap) int { return c.MaxSendWR })),
		noneOf("MaxRecvWR", "max_recv_wr", 128, 0, qpOpt(func(c QPCap) int { return c.MaxRecvWR })),
		noneOf("MaxSendSGE", "max_send_sge", 1, 0, qpOpt(func(c QPCap) int { return c.MaxSendSGE })),
		noneOf("MaxRecvSGE", "max_recv_sge", 1, 0, qpOpt(func(c QPCap) int { return c.MaxRecvSGE })),
		noneOf("MaxInline", "max_inline_data", 0, 0, qpOpt(func(c QPCap) int { return c.MaxInline })),
		noneOf("MaxWR", "max_wr", 128, refused, srqOpt(func(c SRQCap) int { return c.MaxWR })),
		noneOf("MaxSGE", "max_sge", 1, 0, srqOpt(func(c SRQCap) int { return c.MaxSGE })),
		noneOf("MaxWR", "max_wr", 128, refused, wqOpt(func(c WQCap) int { return c.MaxWR })),
		noneOf("MaxSGE", "max_sge", 1, 0, wqOpt(func(c WQCap) int { return c.MaxSGE })),
	}
	var have []string
	for _, r := range rows {
		have = append(have, r.name)
		if got, err := r.with(0); err != nil || got != r.usual {
			t.Errorf("%s 0 becomes %d, want %d: %v", r.name, got, r.usual, err)
		}
		got, err := r.with(None)
		var arg *ArgError
		switch {
		case r.none == refused && r.arg == "max_wr":
			if !errors.As(err, &arg) || arg.Arg != r.arg {
				t.Errorf("%s None: %v", r.name, err)
			}
		case err != nil || got != r.none:
			t.Errorf("%s None becomes %d, want %d: %v", r.name, got, r.none, err)
		}
		for _, v := range []int64{-2, -1 << 31} {
			_, err := r.with(v)
			if !errors.As(err, &arg) || !errors.Is(err, syscall.EINVAL) || arg.Arg != r.arg ||
				!strings.HasPrefix(arg.Got, "-") || !strings.Contains(arg.Want, "None") {
				t.Errorf("%s %d: %v", r.name, v, err)
			}
		}
	}
	for _, typ := range []reflect.Type{reflect.TypeFor[ConnectOptions](), reflect.TypeFor[CQOptions](),
		reflect.TypeFor[QPOptions](), reflect.TypeFor[SRQOptions](), reflect.TypeFor[WQOptions]()} {
		for _, f := range numbers(typ) {
			if name := typ.Name() + "." + f; !noNone[name] && !slices.Contains(have, name) {
				t.Errorf("%s is not in this test", name)
			}
		}
	}
}

// noneRow is an option, and what becomes of it.
type noneRow struct {
	name, arg   string
	usual, none int64
	with        func(v int64) (int64, error)
}

func noneOf[T any](field, arg string, usual, none int64, use func(*T) (int64, error)) noneRow {
	return noneRow{reflect.TypeFor[T]().Name() + "." + field, arg, usual, none, func(v int64) (int64, error) {
		var o T
		reflect.ValueOf(&o).Elem().FieldByName(field).SetInt(v)
		return use(&o)
	}}
}

// A number that an option takes is what the QP gets.
func TestFake_ConnectNumbers(t *testing.T) {
	qp := fakeSide(t, nil).newQP(t, nil)
	a := connectAttrs(t, qp, &ConnectOptions{RetryCount: 3, RNRRetry: 4, MaxRdAtomic: 5, MaxDestRdAtomic: 255,
		HopLimit: 255, AckTimeout: TimeCode(9).Duration()})
	if a.RetryCnt != 3 || a.RNRRetry != 4 || a.MaxRdAtomic != 5 || a.MaxDestRdAtomic != 255 || a.AV.HopLimit != 255 ||
		a.Timeout != 9 {
		t.Errorf("%+v", a)
	}
	ep := must(qp.Endpoint(1, 1))(t)
	for word, o := range map[string]*ConnectOptions{"MaxRdAtomic 256": {MaxRdAtomic: 256},
		"MaxDestRdAtomic 1000": {MaxDestRdAtomic: 1000}, "HopLimit 300": {HopLimit: 300}} {
		var limit *LimitError
		err := qp.Connect(ep, o)
		if wantErr(t, err, syscall.EINVAL, word, "(255)"); !errors.As(err, &limit) {
			t.Error(err)
		}
	}
}
