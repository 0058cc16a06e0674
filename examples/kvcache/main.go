// Kvcache moves the key-value cache of a language model from the host that computes it to the host that
// decodes with it, layer by layer. The decoding host lends memory, and the other writes into it while it
// computes the next layer: one write for each layer, without a copy and without the decoding host's
// processor.
//
//	kvcache            lends memory to any number of clients
//	kvcache -s HOST    writes a cache into it
package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"github.com/pureverbs/pureverbs/examples/frame"
	"github.com/pureverbs/pureverbs/rdma"
)

const synopsis = `kvcache            lends memory to any number of clients
kvcache -s HOST    writes a cache into it
`

var (
	server = flag.String("s", "", "`address` of the decoding host; without it, be one")
	bind   = flag.String("b", "", "`address` to serve at; without it, all")
	port   = flag.String("p", "7478", "`port` of the decoding host")
	layers = flag.Int("l", 32, "`number` of layers")
	size   = flag.Int("S", 256<<10, "`bytes` of a layer")
)

func main() { frame.Main(synopsis, run) }

func run(ctx context.Context, out io.Writer) error {
	if *server == "" {
		return decode(ctx, net.JoinHostPort(*bind, *port), out)
	}
	return prefill(ctx, net.JoinHostPort(*server, *port), out)
}

// decode lends memory until ctx ends.
func decode(ctx context.Context, addr string, out io.Writer) error {
	var running sync.WaitGroup
	defer running.Wait()
	// lend replies to a client's Request.
	lend := func(asked context.Context, r *rdma.LeaseRequest) (*rdma.Lease, error) {
		b, err := r.Conn.Engine().Pool().Get(int(r.Bytes))
		if err != nil {
			return nil, err
		}
		lease, err := r.Lend(asked, b, rdma.MayWrite, r.Duration)
		if err != nil {
			b.Release()
			return nil, err
		}
		running.Go(func() {
			if err := use(ctx, r.Conn, lease, out); err != nil {
				fmt.Fprintf(os.Stderr, "%v: %v\n", r.Conn.RemoteAddr(), err)
			}
		})
		return lease, nil
	}
	l, err := rdma.Listen(ctx, addr, &rdma.Options{Leases: &rdma.LeaseOptions{
		MaxLeases: 1, MaxBytes: 64 << 20, MaxDuration: time.Minute, OnRequest: lend,
	}})
	if err != nil {
		return err
	}
	defer l.Close()
	fmt.Fprintf(out, "serving at %v\n", l.Addr())
	return frame.Serve(ctx, l.Accept, func(ctx context.Context, c *rdma.Conn) error { return follow(ctx, c, out) })
}

// follow reports when a client's layers have arrived: each is in memory before its message, and a model
// could start with it.
func follow(ctx context.Context, c *rdma.Conn, out io.Writer) error {
	for n := 1; ; n++ {
		m, err := c.Recv(ctx)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if left, _ := m.Imm(); left == 0 {
			fmt.Fprintf(out, "%d layers\n", n)
		}
		m.Release()
	}
}

// use waits until the client has returned the memory, and sends it the checksum.
func use(ctx context.Context, c *rdma.Conn, lease *rdma.Lease, out io.Writer) error {
	// It ends with the connection at the latest. From then on the client writes nothing.
	b, err := lease.Wait(context.WithoutCancel(ctx))
	if b == nil {
		return err
	}
	defer b.Release()
	if err != nil {
		return err
	}
	sum := sha256.Sum256(b.Bytes())
	fmt.Fprintf(out, "%d bytes, SHA-256 %x\n", len(b.Bytes()), sum)
	return c.Send(ctx, sum[:])
}

// prefill writes a cache into memory of the decoding host.
func prefill(ctx context.Context, addr string, out io.Writer) error {
	c, err := rdma.Dial(ctx, addr, &rdma.Options{Leases: &rdma.LeaseOptions{MaxBytes: rdma.None}}) // it lends nothing
	if err != nil {
		return err
	}
	defer c.Close()
	total := int64(*layers) * int64(*size)
	region, err := c.Request(ctx, total, rdma.MayWrite, time.Minute)
	if err != nil {
		return err
	}
	if region.Len() < total {
		return fmt.Errorf("%d bytes granted, want %d", region.Len(), total)
	}

	// Two layers: one is computed while the other is written.
	var buffers [2]*rdma.Buffer
	var transfers [2]*rdma.Transfer
	for i := range buffers {
		if buffers[i], err = c.Engine().Pool().Get(*size); err != nil {
			return err
		}
		defer buffers[i].Release()
		transfers[i] = region.Transfer()
	}
	sum := sha256.New()
	for layer := range *layers {
		b, t := buffers[layer%2], transfers[layer%2]
		if layer >= 2 {
			if err := t.Wait(ctx); err != nil {
				return err
			}
		}
		compute(b.Bytes(), layer)
		sum.Write(b.Bytes())
		t.Write(b, 0, *size, int64(layer)*int64(*size))
		t.NotifyImm(uint32(*layers-1-layer), nil) // a message behind the bytes: how many layers are left
		if err := t.Start(ctx); err != nil {
			return err
		}
	}
	for i := range min(2, *layers) {
		if err := transfers[i].Wait(ctx); err != nil {
			return err
		}
	}
	if err := region.Return(ctx); err != nil {
		return err
	}
	m, err := c.Recv(ctx)
	if err != nil {
		return err
	}
	defer m.Release()
	if !bytes.Equal(m.Bytes(), sum.Sum(nil)) {
		return errors.New("other bytes arrived than were written")
	}
	fmt.Fprintf(out, "%d bytes written over %s, SHA-256 %x\n", total, c.Transport(), m.Bytes())
	return nil
}

// compute stands for the model.
func compute(b []byte, layer int) {
	for i := range b {
		b[i] = byte(i*layer + i>>8)
	}
}
