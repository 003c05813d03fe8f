// The loop of every Go program of the museum: steps from stdin, answers to stdout; see tests/museum/contract.py.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"sync"
	"syscall"
)

type step func(words []string) ([]string, error)

var (
	bootstrap = os.Args[1]
	zookeeper = os.Args[2]
	arguments = os.Args[3:]
	answers   sync.Mutex
)

func answer(content any) {
	text, _ := json.Marshal(content)
	answers.Lock()
	defer answers.Unlock()
	fmt.Println(string(text))
}

// tell is for follow: a record that was seen.
func tell(partition int, offset int64, value []byte) {
	answer(map[string]any{"partition": partition, "offset": offset, "value": string(value)})
}

// ended is closed when follow shall leave its group.
func ended() chan os.Signal {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM)
	return signals
}

func number(word string) int {
	found, _ := strconv.Atoi(word)
	return found
}

func key(number int) []byte {
	return []byte(fmt.Sprintf("key-%d", number))
}

func value(number int) []byte {
	return []byte(fmt.Sprintf("value-%d", number))
}

func split(line string) (words []string) {
	word := ""
	for _, each := range line + " " {
		if each != ' ' {
			word += string(each)
		} else if word != "" {
			words = append(words, word)
			word = ""
		}
	}
	return
}

func serve(steps map[string]step) {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		words := split(lines.Text())
		found, known := steps[words[0]]
		if !known {
			answer(map[string]any{"ok": false, "error": "no such step"})
			continue
		}
		values, problem := found(words[1:])
		if problem != nil {
			answer(map[string]any{"ok": false, "error": problem.Error()})
			continue
		}
		if values == nil {
			values = []string{}
		}
		answer(map[string]any{"ok": true, "values": values})
	}
}
