// A broker of kfake that serves where the properties file in its last argument says: [-disk] FILE. It keeps records in memory, or with
// -disk in log.dirs.
package main

import (
	"fmt"
	"log"
	"os"
	"regexp"
	"strconv"

	"github.com/twmb/franz-go/pkg/kfake"
)

func main() {
	properties, err := os.ReadFile(os.Args[len(os.Args)-1])
	if err != nil {
		log.Fatal(err)
	}
	setting := func(pattern string) string {
		return string(regexp.MustCompile("(?m)^" + pattern + "$").FindSubmatch(properties)[1])
	}
	port, _ := strconv.Atoi(setting(`listeners=PLAINTEXT://.*:(\d+)`))
	options := []kfake.Opt{kfake.NumBrokers(1), kfake.Ports(port)}
	if os.Args[1] == "-disk" {
		options = append(options, kfake.DataDir(setting(`log\.dirs=(.*)`)))
	}
	kfake.MustCluster(options...)
	fmt.Printf("[KafkaServer id=%s] started\n", setting(`broker\.id=(\d+)`))
	select {}
}
