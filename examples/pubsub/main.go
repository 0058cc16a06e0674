// Pubsub is a broker, its publishers and its subscribers. A publisher makes calls and learns how many
// subscribers there are; a subscriber receives messages. A connection's private data name its kind.
//
//	pubsub                             is the broker
//	pubsub -s HOST -t TOPIC            prints the messages of a topic
//	pubsub -s HOST -t TOPIC -m TEXT    publishes a message
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"net"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/pureverbs/pureverbs/examples/frame"
	"github.com/pureverbs/pureverbs/rdma"
)

const synopsis = `pubsub                             is the broker
pubsub -s HOST -t TOPIC            prints the messages of a topic
pubsub -s HOST -t TOPIC -m TEXT    publishes a message
`

var (
	server = flag.String("s", "", "`address` of the broker; without it, be one")
	bind   = flag.String("b", "", "`address` to serve at; without it, all")
	port   = flag.String("p", "7477", "`port` of the broker")
	topic  = flag.String("t", "news", "`topic`")
	text   = flag.String("m", "", "`message` to publish")
	count  = flag.Int("n", 0, "`number` of messages after which a subscriber ends (default never)")
)

func main() { frame.Main(synopsis, run) }

// What a connection is for: its private data.
const (
	publisher  = "publisher"
	subscriber = "subscriber"
)

func run(ctx context.Context, out io.Writer) error {
	addr := net.JoinHostPort(*server, *port)
	switch {
	case *server == "":
		return serve(ctx, net.JoinHostPort(*bind, *port), out)
	case *text != "":
		return publish(ctx, addr, out)
	}
	return subscribe(ctx, addr, out)
}

func publish(ctx context.Context, addr string, out io.Writer) error {
	c, err := rdma.Dial(ctx, addr, &rdma.Options{PrivateData: []byte(publisher)})
	if err != nil {
		return err
	}
	caller, err := rdma.NewCaller(c)
	if err != nil {
		return errors.Join(err, c.Close())
	}
	defer caller.Close()
	reply, err := caller.Call(ctx, []byte(*topic+"\x00"+*text))
	if err != nil {
		return err
	}
	defer reply.Release()
	fmt.Fprintf(out, "sent to %s subscribers\n", reply.Bytes())
	return nil
}

func subscribe(ctx context.Context, addr string, out io.Writer) error {
	c, err := rdma.Dial(ctx, addr, &rdma.Options{PrivateData: []byte(subscriber)})
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.Send(ctx, []byte(*topic)); err != nil {
		return err
	}
	for n := 0; *count == 0 || n < *count; n++ {
		m, err := c.Recv(ctx)
		if ctx.Err() != nil {
			return nil // interrupted, as intended
		}
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "%s: %s\n", *topic, m.Bytes())
		m.Release()
	}
	return nil
}

// broker knows who has subscribed to each topic.
type broker struct {
	mu     sync.Mutex
	topics map[string]map[*rdma.Conn]bool
}

// serve is the broker until ctx ends.
func serve(ctx context.Context, addr string, out io.Writer) error {
	l, err := rdma.Listen(ctx, addr, nil)
	if err != nil {
		return err
	}
	defer l.Close()
	fmt.Fprintf(out, "serving at %v\n", l.Addr())
	b := broker{topics: make(map[string]map[*rdma.Conn]bool)}
	return frame.Serve(ctx, l.Accept, func(ctx context.Context, c *rdma.Conn) error {
		if bytes.HasPrefix(c.Peer().PrivateData, []byte(publisher)) {
			return rdma.Serve(ctx, c, b.forward)
		}
		return b.keep(ctx, c)
	})
}

// keep keeps a subscriber until it leaves.
func (b *broker) keep(ctx context.Context, c *rdma.Conn) error {
	m, err := c.Recv(ctx)
	if err != nil {
		return err
	}
	topic := string(m.Bytes())
	m.Release()
	b.mu.Lock()
	if b.topics[topic] == nil {
		b.topics[topic] = make(map[*rdma.Conn]bool)
	}
	b.topics[topic][c] = true
	b.mu.Unlock()
	defer func() {
		b.mu.Lock()
		delete(b.topics[topic], c)
		b.mu.Unlock()
	}()
	if m, err = c.Recv(ctx); err == nil {
		m.Release()
		return errors.New("a subscriber sends nothing but its topic")
	}
	if err == io.EOF {
		return nil
	}
	return err
}

// forward is the handler of a publisher's calls. A subscriber that takes nothing for a second is dropped.
func (b *broker) forward(ctx context.Context, m *rdma.Message) ([]byte, error) {
	topic, text, ok := bytes.Cut(m.Bytes(), []byte{0})
	if !ok {
		return nil, errors.New("a message without a topic")
	}
	b.mu.Lock()
	subscribers := slices.Collect(maps.Keys(b.topics[string(topic)]))
	b.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	sent := 0
	for _, c := range subscribers {
		if err := c.Send(ctx, text); err != nil {
			_ = c.Close() // keep returns
			continue
		}
		sent++
	}
	return strconv.AppendInt(nil, int64(sent), 10), nil
}
