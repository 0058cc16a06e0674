package doctor

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"sync"
	"time"

	"github.com/pureverbs/pureverbs/ibv"
)

// ThisNative has the checks of this process, which uses the native control path. library runs a process that calls
// PrintAttributes, and returns what it prints.
func ThisNative(library func() ([]byte, error)) *Native {
	return &Native{Loop: loop, Attributes: attributes, Library: sync.OnceValues(func() (map[string]Attributes, error) {
		out, err := library()
		if err != nil {
			return nil, err
		}
		devices := map[string]Attributes{}
		return devices, json.Unmarshal(out, &devices)
	})}
}

// PrintAttributes prints the attributes of all devices, by the control path of this process, as JSON.
func PrintAttributes(w io.Writer) error {
	list, err := ibv.Devices()
	if err != nil {
		return err
	}
	devices := map[string]Attributes{}
	for _, d := range list {
		if devices[d.Name], err = attributes(d.Name); err != nil {
			return err
		}
	}
	return json.NewEncoder(w).Encode(devices)
}

// attributes queries a device, its ports and their tables.
func attributes(name string) (Attributes, error) {
	dev, err := ibv.Open(name)
	if err != nil {
		return nil, err
	}
	defer dev.Close()
	all := map[string]any{"completion vectors": dev.NumCompVectors(), "GUID": dev.GUID()}
	device, err := dev.QueryDevice()
	if err != nil {
		return nil, err
	}
	all["device"] = device
	ports := map[string]any{}
	for n := 1; n <= int(device.PhysPortCnt); n++ {
		p, err := dev.QueryPort(uint8(n))
		if err != nil {
			return nil, err
		}
		var pkeys []uint16
		for i := range p.PKeyTableLen {
			k, err := dev.QueryPKey(uint8(n), int(i))
			if err != nil {
				return nil, err
			}
			pkeys = append(pkeys, k)
		}
		ports[strconv.Itoa(n)] = map[string]any{"attributes": p, "P_Keys": pkeys}
	}
	all["ports"] = ports
	if all["GIDs"], err = dev.GIDTable(); err != nil {
		return nil, err
	}
	return flat(all)
}

// flat returns the values that JSON has of v, by their paths.
func flat(v any) (Attributes, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber() // 64 bits
	var tree any
	if err := d.Decode(&tree); err != nil {
		return nil, err
	}
	out := Attributes{}
	var walk func(path string, v any)
	walk = func(path string, v any) {
		switch v := v.(type) {
		case map[string]any:
			for k, e := range v {
				walk(path+"."+k, e)
			}
		case []any:
			for i, e := range v {
				walk(path+"."+strconv.Itoa(i), e)
			}
		default:
			out[path[1:]] = fmt.Sprint(v)
		}
	}
	walk("", tree)
	return out, nil
}

const (
	loopBytes = 4096
	// loopPatience is how long loop waits for its completions.
	loopPatience = 20 * time.Second
)

// loop sends a message through a QP that is connected to itself.
func loop(name string, port int) error {
	dev, err := ibv.Open(name)
	if err != nil {
		return err
	}
	defer dev.Close()
	if path, why := dev.ControlPath(); path != ibv.ControlNative {
		return fmt.Errorf("%s uses the control path %v (%s)", name, path, why)
	}
	pd, err := dev.AllocPD()
	if err != nil {
		return err
	}
	defer pd.Close()
	mr, err := pd.AllocMR(2*loopBytes, ibv.LocalWrite, nil)
	if err != nil {
		return err
	}
	defer mr.Close()
	cq, err := dev.CreateCQ(2, nil)
	if err != nil {
		return err
	}
	defer cq.Close()
	qp, err := pd.CreateQP(cq, cq, &ibv.QPOptions{MaxSendWR: 1, MaxRecvWR: 1})
	if err != nil {
		return err
	}
	defer qp.Close()
	self, err := qp.Endpoint(uint8(port), ibv.BestGID)
	if err != nil {
		return err
	}
	if err := qp.Connect(self, nil); err != nil {
		return err
	}
	return exchange(qp, mr)
}

// exchange sends the first half of a region to the second.
func exchange(qp *ibv.QP, mr *ibv.MR) error {
	sent, arrived := mr.Bytes()[:loopBytes], mr.Bytes()[loopBytes:]
	for i := range sent {
		sent[i] = byte(i*7 + i>>8)
	}
	if _, err := qp.PostRecv([]ibv.RecvWR{{SGEs: []ibv.SGE{mr.SGE(loopBytes, loopBytes)}}}); err != nil {
		return err
	}
	if _, err := qp.PostSend([]ibv.SendWR{{Opcode: ibv.OpSend, Flags: ibv.Signaled,
		SGEs: []ibv.SGE{mr.SGE(0, loopBytes)}}}); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), loopPatience)
	defer cancel()
	for range 2 {
		var wc [1]ibv.WC
		if _, err := qp.SendCQ().Wait(ctx, wc[:]); err != nil {
			return fmt.Errorf("wait for a completion, for at most %v: %w", loopPatience, err)
		}
		if err := wc[0].Err(); err != nil {
			return err
		}
	}
	if !bytes.Equal(sent, arrived) {
		return fmt.Errorf("the %d bytes that arrived are not those that were sent", loopBytes)
	}
	return nil
}
