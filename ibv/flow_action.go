package ibv

import (
	"encoding/binary"
	"fmt"

	"github.com/pureverbs/pureverbs/internal/abi"
)

// FlowAction is something that a device does with the frames of a steering rule: FlowHandle names it.
//
// It belongs to its Device.
//
// C: struct ibv_flow_action.
type FlowAction struct {
	object
}

// ESPAction describes an action for CreateESPAction.
//
// Experimental: no device has run this. See docs/stability.md.
//
// C: struct ibv_flow_action_esp_attr and what it leads to.
type ESPAction struct {
	SPI              uint32
	Seq              uint32
	TFCPad           uint32
	Flags            ESPFlags
	HardLimitPackets uint64  // 0 means no limit
	ESN              *uint32 // the high half of extended sequence numbers; nil without them
	AESGCM           *ESPKey // required to create
	ReplayWindow     uint32  // packets; 0 means no protection against replays
}

// ESPKey is a key of AES-GCM.
//
// Experimental: no device has run this. See docs/stability.md.
//
// C: struct ibv_flow_action_esp_aes_keymat_aes_gcm.
type ESPKey struct {
	IV     uint64
	Salt   uint32
	ICVLen uint32 // bytes: 8, 12 or 16
	Key    []byte // 16, 24 or 32 bytes
}

// CreateESPAction makes an action that encrypts or decrypts ESP packets. Linux had it for mlx5 up to
// 5.17, on adapters with such an engine.
//
// Experimental: no device has run this. See docs/stability.md.
//
// C: ibv_create_flow_action_esp(3).
func (d *Device) CreateESPAction(a *ESPAction) (*FlowAction, error) {
	return d.createESP("create esp action", a, d.v.CreateFlowActionESP)
}

func (d *Device) createESP(op string, a *ESPAction,
	make func(dev uintptr, e *abi.ESP) (uintptr, error)) (*FlowAction, error) {
	e, err := a.toC()
	if err == nil && a.AESGCM == nil {
		err = &ArgError{Arg: "AESGCM", Got: "nil", Want: "a key"}
	}
	if err != nil {
		return nil, &OpError{Op: op, Object: d.Name(), Err: err}
	}
	return d.newFlowAction(op, func(dev uintptr) (uintptr, error) {
		h, err := make(dev, e)
		return h, d.explainESP(err)
	})
}

func (d *Device) newFlowAction(op string, make func(dev uintptr) (uintptr, error)) (*FlowAction, error) {
	f := &FlowAction{object: object{dev: d}}
	return create(op, d.Name(), "flow action", f, &f.node, func() (err error) {
		f.handle, err = make(d.handle)
		return err
	}, &d.node)
}

// ModifyESP changes an action of CreateESPAction: its ESN, for example.
//
// Experimental: no device has run this. See docs/stability.md.
//
// C: ibv_modify_flow_action_esp(3).
func (f *FlowAction) ModifyESP(a *ESPAction) error {
	const op = "modify esp action"
	e, err := a.toC()
	if err != nil {
		return opError(op, f.name, err)
	}
	return f.do(op, func() error {
		return f.dev.explainESP(f.dev.v.ModifyFlowActionESP(f.dev.handle, f.handle, e))
	})
}

// Close destroys the action. It fails while a Flow uses it.
//
// C: ibv_destroy_flow_action(3).
func (f *FlowAction) Close() error { return f.destroy(f.dev.v.DestroyFlowAction) }

func (a *ESPAction) toC() (*abi.ESP, error) {
	if a == nil {
		return nil, &ArgError{Arg: "attr", Got: "nil", Want: "an ESPAction"}
	}
	if odd := a.Flags &^ (ESPFullOffload | ESPTransport | ESPEncrypt | ESPNewESNWindow); odd != 0 {
		return nil, &ArgError{Arg: "Flags", Got: odd.String(), Want: "FullOffload, Transport, Encrypt and NewESNWindow"}
	}
	e := &abi.ESP{ESN: a.ESN, HasReplay: a.ReplayWindow > 0}
	e.Attr.SPI, e.Attr.Seq, e.Attr.TFCPad, e.Attr.Flags = a.SPI, a.Seq, a.TFCPad, uint32(a.Flags)
	e.Attr.HardLimitPkts, e.Replay.Size = a.HardLimitPackets, a.ReplayWindow
	k := a.AESGCM
	if k == nil {
		return e, nil
	}
	switch {
	case len(k.Key) != 16 && len(k.Key) != 24 && len(k.Key) != 32:
		return nil, &ArgError{Arg: "AESGCM.Key", Got: fmt.Sprintf("%d bytes", len(k.Key)), Want: "16, 24 or 32 bytes"}
	case k.ICVLen != 8 && k.ICVLen != 12 && k.ICVLen != 16:
		return nil, &ArgError{Arg: "AESGCM.ICVLen", Got: fmt.Sprint(k.ICVLen), Want: "8, 12 or 16"}
	}
	e.HasKey = true
	e.Keymat.IV, e.Keymat.Salt, e.Keymat.ICVLen, e.Keymat.KeyLen = k.IV, k.Salt, k.ICVLen, uint32(len(k.Key))
	for i := 0; i < len(k.Key); i += 4 {
		e.Keymat.AESKey[i/4] = binary.NativeEndian.Uint32(k.Key[i:])
	}
	return e, nil
}

func (d *Device) explainESP(err error) error {
	return d.explainLack(err, "ESP by the device", "libibverbs of rdma-core v18 or later",
		"Linux before 5.18 and an adapter with an IPsec engine, or the kernel's own offload (ip xfrm)", "")
}
