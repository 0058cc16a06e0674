package mlx5dv

import (
	"errors"
	"fmt"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/abi"
)

// Flow is a steering rule of a FlowMatcher.
//
// It belongs to its FlowMatcher, and to the objects that its actions name, which cannot be closed
// before it.
//
// C: struct ibv_flow.
type Flow struct{ node }

// FlowAction is something that is done with the frames of a rule: FlowToQP, FlowToDevX, FlowDrop, FlowMiss,
// FlowTag, FlowCount or FlowApply.
type FlowAction interface {
	// encode returns the action, after it has entered what it names.
	encode(c *flowCall) (abi.MLX5DVFlowActionAttr, error)
}

// FlowToQP leads frames to a raw packet QP. C: MLX5DV_FLOW_ACTION_DEST_IBV_QP.
type FlowToQP struct{ QP *ibv.QP }

// FlowDrop drops frames. C: MLX5DV_FLOW_ACTION_DROP.
type FlowDrop struct{}

// FlowMiss passes frames on as if there were no rule, for example to the port's netdev.
// C: MLX5DV_FLOW_ACTION_DEFAULT_MISS.
type FlowMiss struct{}

// FlowTag is put in completions, as WC.QPN of a raw packet QP, or by CQOptions.Fields. It has 24 bits.
// C: MLX5DV_FLOW_ACTION_TAG.
type FlowTag uint32

// FlowApply has an action of CreateHeaderAction, CreateReformatAction or CreateESPAction change frames.
// C: MLX5DV_FLOW_ACTION_IBV_FLOW_ACTION.
type FlowApply struct{ Action *ibv.FlowAction }

// FlowToDevX leads frames to a TIR or a table that was made by DevX. C: MLX5DV_FLOW_ACTION_DEST_DEVX.
//
// Experimental: no device has run this. See docs/stability.md.
type FlowToDevX struct{ Object *DevXObject }

// FlowCount counts frames in a counter that was made by DevX. An Offset in its bulk needs libmlx5 v60.
// C: MLX5DV_FLOW_ACTION_COUNTERS_DEVX, MLX5DV_FLOW_ACTION_COUNTERS_DEVX_WITH_OFFSET.
type FlowCount struct {
	Counter *DevXObject
	Offset  uint32
}

// flowCall is a call of CreateFlow.
type flowCall struct {
	*call
	arg  string          // of the action
	seen map[string]bool // kinds of actions that a rule may have once
}

// once reports a second action of a kind that a rule may have once.
func (c *flowCall) once(kind string) error {
	if c.seen[kind] {
		return &ibv.ArgError{Arg: c.arg, Got: "a second " + kind, Want: "one " + kind + " in a rule"}
	}
	c.seen[kind] = true
	return nil
}

// destination is the kind of action that a rule has exactly once.
const destination = "destination (FlowToQP, FlowToDevX, FlowDrop, FlowMiss)"

func (a FlowToQP) encode(c *flowCall) (at abi.MLX5DVFlowActionAttr, err error) {
	switch {
	case a.QP == nil:
		return at, &ibv.ArgError{Arg: c.arg + ".QP", Got: "nil", Want: "an open QP"}
	case a.QP.Type() != ibv.RawPacket:
		return at, &ibv.ArgError{Arg: c.arg + ".QP", Got: "of type " + a.QP.Type().String(), Want: "of type RawPacket"}
	}
	h, err := c.useVerbs(verbs.Ref(a.QP))
	at = abi.MLX5DVFlowActionAttr{Type: abi.MLX5DV_FLOW_ACTION_DEST_IBV_QP, Value: uint64(h)}
	return at, errors.Join(err, c.once(destination))
}

func (FlowDrop) encode(c *flowCall) (abi.MLX5DVFlowActionAttr, error) {
	return abi.MLX5DVFlowActionAttr{Type: abi.MLX5DV_FLOW_ACTION_DROP}, c.once(destination)
}

func (FlowMiss) encode(c *flowCall) (abi.MLX5DVFlowActionAttr, error) {
	return abi.MLX5DVFlowActionAttr{Type: abi.MLX5DV_FLOW_ACTION_DEFAULT_MISS}, c.once(destination)
}

func (a FlowToDevX) encode(c *flowCall) (at abi.MLX5DVFlowActionAttr, err error) {
	h, err := c.devx(a.Object)
	at = abi.MLX5DVFlowActionAttr{Type: abi.MLX5DV_FLOW_ACTION_DEST_DEVX, Value: uint64(h)}
	return at, errors.Join(err, c.once(destination))
}

func (a FlowCount) encode(c *flowCall) (at abi.MLX5DVFlowActionAttr, err error) {
	h, err := c.devx(a.Counter)
	at = abi.MLX5DVFlowActionAttr{Type: abi.MLX5DV_FLOW_ACTION_COUNTERS_DEVX, Value: uint64(h)}
	if a.Offset != 0 {
		if !c.lib.TakesOffsets() {
			err = errors.Join(err, &ibv.UnsupportedError{Feature: "an Offset of FlowCount",
				Need: "libmlx5 of rdma-core v60 or later", Have: "one without __mlx5dv_create_flow"})
		}
		at.Type, at.Offset = abi.MLX5DV_FLOW_ACTION_COUNTERS_DEVX_WITH_OFFSET, a.Offset
	}
	return at, errors.Join(err, c.once("FlowCount"))
}

// checkTag refuses a tag of more than 24 bits.
func checkTag(arg string, tag uint32) error {
	if tag >= 1<<24 {
		return &ibv.LimitError{What: arg, Asked: uint64(tag), Limit: 1<<24 - 1, Where: "a tag of 24 bits"}
	}
	return nil
}

func (a FlowTag) encode(c *flowCall) (abi.MLX5DVFlowActionAttr, error) {
	at := abi.MLX5DVFlowActionAttr{Type: abi.MLX5DV_FLOW_ACTION_TAG, Value: uint64(a)}
	return at, errors.Join(checkTag(c.arg+" (FlowTag)", uint32(a)), c.once("FlowTag"))
}

func (a FlowApply) encode(c *flowCall) (at abi.MLX5DVFlowActionAttr, err error) {
	if a.Action == nil {
		return at, &ibv.ArgError{Arg: c.arg + ".Action", Got: "nil", Want: "an open ibv.FlowAction"}
	}
	h, err := c.useVerbs(verbs.Ref(a.Action))
	return abi.MLX5DVFlowActionAttr{Type: abi.MLX5DV_FLOW_ACTION_IBV_FLOW_ACTION, Value: uint64(h)}, err
}

// maxFlowActions is more than a rule can use: one destination, a tag, a counter and two FlowApply.
const maxFlowActions = 8

// CreateFlow makes a rule. value may be nil, for a matcher that compares nothing; it has only bits of the
// matcher's mask. The program needs CAP_NET_RAW.
//
// A rule has one destination at most, one tag, and two FlowApply: a change of headers and one of
// reformatting. A rule in TableNICTx without a destination lets frames go on to the wire.
//
// C: mlx5dv_create_flow(3).
func (m *FlowMatcher) CreateFlow(value *Match, actions ...FlowAction) (*Flow, error) {
	c, fl := m.begin("create flow"), new(Flow)
	return create(c, fl, &fl.node, "flow", func() (uintptr, error) {
		v, err := value.valueFor(m.mask)
		errs := []error{err}
		if len(actions) > maxFlowActions {
			errs = append(errs, &ibv.LimitError{What: "flow actions", Asked: uint64(len(actions)),
				Limit: maxFlowActions, Where: "one rule"})
		}
		f := flowCall{call: c, seen: map[string]bool{}}
		list := make([]abi.MLX5DVFlowActionAttr, len(actions))
		for i, a := range actions {
			f.arg = fmt.Sprintf("actions[%d]", i)
			if a == nil {
				errs = append(errs, &ibv.ArgError{Arg: f.arg, Got: "nil", Want: "a FlowAction"})
				continue
			}
			list[i], err = a.encode(&f)
			errs = append(errs, err)
		}
		if err := errors.Join(errs...); err != nil {
			return 0, err
		}
		h, err := c.lib.CreateFlow(m.handle, v, list)
		return h, explainSteering(err, m.dev, "these actions in table "+m.table.String(), -1)
	})
}

// Close removes the rule.
//
// C: ibv_destroy_flow(3).
func (f *Flow) Close() error {
	return f.close(func() error { return verbs.DestroyFlow(f.dev, f.handle) })
}
