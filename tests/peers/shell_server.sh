# A server in a few lines of shell: it starts in a millisecond, and counts how many start beside it in $STARTING.
: > "$STARTING/$$"
set -- "$STARTING"/[0-9]*
echo $# >> "$STARTING/counts"
while read -r line; do
  id=${line#*'"id":'}
  id=${id%%[,\}]*}
  case $line in
    *'"method":"initialize"'*)
      rm -f "$STARTING/$$"
      body='{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"sh","version":"1"}}' ;;
    *'"method":"tools/list"'*) body='{"tools":[{"name":"hello","inputSchema":{"type":"object"}}]}' ;;
    *'"method":"tools/call"'*) body='{"content":[{"type":"text","text":"hello"}]}' ;;
    *'"id":'*) echo "{\"jsonrpc\":\"2.0\",\"id\":$id,\"error\":{\"code\":-32601,\"message\":\"no\"}}"; continue ;;
    *) continue ;;
  esac
  echo "{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":$body}"
done
