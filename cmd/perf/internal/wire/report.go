package wire

import (
	"encoding/binary"
	"time"
)

// Report has the figures of a run that the ends of a bandwidth test exchange. The unit of PeakBW and AvgBW is that of
// the end that sends them (MiB/s, or Gb/s), and is not sent; MsgRate is in millions per second.
type Report struct {
	Size    uint64
	Iters   uint64
	PeakBW  float64
	AvgBW   float64
	MsgRate float64
	PerPort bool // with Ports; both ends have it or none
	Ports   [2]PortReport
}

// PortReport is a port's part of a Report.
type PortReport struct{ AvgBW, MsgRate float64 }

// Reports exchanges the reports.
func (w *Conn) Reports(own Report, limit time.Duration) (Report, error) {
	peer := Report{PerPort: own.PerPort}
	type figure struct {
		name      string
		own, peer any
	}
	figures := []figure{{"size", own.Size, &peer.Size}, {"messages", own.Iters, &peer.Iters},
		{"peak", own.PeakBW, &peer.PeakBW}, {"average", own.AvgBW, &peer.AvgBW}, {"rate", own.MsgRate, &peer.MsgRate}}
	for i := range own.Ports {
		if own.PerPort {
			figures = append(figures, figure{"average of a port", own.Ports[i].AvgBW, &peer.Ports[i].AvgBW},
				figure{"rate of a port", own.Ports[i].MsgRate, &peer.Ports[i].MsgRate})
		}
	}
	for _, f := range figures {
		out, _ := binary.Append(nil, binary.BigEndian, f.own)
		in := make([]byte, len(out))
		if err := w.exchange("report of "+f.name, out, in, limit); err != nil {
			return peer, err
		}
		binary.Decode(in, binary.BigEndian, f.peer)
	}
	return peer, nil
}

// Arrived tells the peer how many messages arrived here, and returns how many arrived there. The end that waits for
// what may be lost hears from the first bytes that all is sent, so both write first.
func (w *Conn) Arrived(own uint64, limit time.Duration) (peer uint64, err error) {
	const step = "messages that arrived"
	if err := w.write(step, binary.BigEndian.AppendUint64(nil, own)); err != nil {
		return 0, err
	}
	in := make([]byte, 8)
	err = w.read(step, in, limit)
	return binary.BigEndian.Uint64(in), err
}
