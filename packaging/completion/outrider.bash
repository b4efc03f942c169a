# SPDX-License-Identifier: MIT
# Made by scripts/generate: edit src/cli/commands.c instead.
# shellcheck shell=bash disable=SC2207
_outrider()
{
    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}
    local command=${COMP_WORDS[1]} flags= words=
    COMPREPLY=()
    if [ "$COMP_CWORD" -eq 1 ]; then
        words="init put relay status dead tail replay cleanup resync pipeline slot doctor check version help"
        COMPREPLY=($(compgen -W "$words" -- "$cur"))
        return
    fi
    case "$command $prev" in
    "relay --mode") words="poll cdc" ;;
    "relay --log-level") words="debug info warn error" ;;
    "replay --log-level") words="debug info warn error" ;;
    "relay --log-format") words="logfmt json" ;;
    "replay --log-format") words="logfmt json" ;;
    "init --layout") words="log status" ;;
    "init --payload") words="jsonb text bytea" ;;
    "init --partition") words="day month" ;;
    *" --set") words="source.url= source.mode= source.tables= source.poll_interval= source.batch= source.batch_bytes= source.max_payload= source.max_headers= source.connect_timeout= source.initial_delay= source.durable= source.max_gaps= source.min_age= source.lease= source.concurrency= source.existing_rows= source.after_publish= source.publication= source.slot_failover= map.id= map.seq= map.aggregate_type= map.aggregate_id= map.event_type= map.payload= map.headers= map.topic= map.partition_key= map.partition= map.occurred_at= map.created_at= map.expires_at= map.idempotency_key= map.request_digest= map.status= map.published= map.published_at= map.attempts= map.next_attempt_at= map.last_error= map.last_error_code= map.locked_by= map.locked_at= map.locked_until= map.claim= map.updated_at= map.status_values= map.header_columns= map.missing_columns= map.epoch= sink.url= sink.send_timeout= sink.empty_is_tombstone= sink.rotate_size= sink.kafka= sink.create_topics= sink.progress_topic= route.topic= route.by_type= route.regex_field= route.regex= route.replacement= form= cloudevents.source= object.members= object.payload= headers.event_id= headers.event_type= headers.aggregate_type= select.aggregate_types= select.event_types= retry.delays= retry.base= retry.factor= retry.max= retry.jitter= retry.max_attempts= retry.on_dead= dead_letter.topic= cleanup.retention= cleanup.every= cleanup.at= cleanup.batch= cleanup.pause= cleanup.adopted= hybrid.lease= hybrid.queue= ordered= exactly_once= shutdown_timeout=" ;;
    "dead dead") words="list show retry discard" ;;
    "help help") words="init put relay status dead tail replay cleanup resync pipeline slot doctor check version help" ;;
    *" -c" | *" --config" | *" --jsonl" | "tail "*)
        [[ $cur == -* ]] || { compopt -o default; return; } ;;
    esac
    if [ -n "$words" ]; then
        [ "$prev" = --set ] && compopt -o nospace
        COMPREPLY=($(compgen -W "$words" -- "$cur"))
        return
    fi
    case $command in
    init) flags="--db --from --name --config --set --table --layout --payload --partition --inbox --dry-run --help" ;;
    put) flags="--db --from --name --config --set --table --aggregate-type --aggregate-id --type --payload --topic --key --partition-key --partition --header --id --occurred-at --expires-at --jsonl --batch --json --help" ;;
    relay) flags="--from --db --to --name --config --debezium --set --table --mode --once --log-level --log-format --help" ;;
    status) flags="--db --from --name --config --debezium --set --table --json --help" ;;
    dead) flags="--db --from --name --config --debezium --set --table --id --type --since --parked --all --json --help" ;;
    tail) flags="--follow --lines --help" ;;
    replay) flags="--db --from --to --name --config --set --table --log-level --log-format --since --from-seq --help" ;;
    cleanup) flags="--db --from --name --config --debezium --set --table --inbox --retention --json --help" ;;
    resync) flags="--db --from --name --config --debezium --set --table --progress --forget-intent --json --help" ;;
    pipeline) flags="--db --from --to --name --config --debezium --set --table --json --help" ;;
    slot) flags="--db --from --offset --name --config --debezium --set --table --help" ;;
    doctor) flags="--from --db --to --name --config --debezium --set --table --json --help" ;;
    check) flags="--from --db --to --name --config --debezium --set --print --json --help" ;;
    version) flags="--json --help" ;;
    help) flags="--help" ;;
    esac
    COMPREPLY=($(compgen -W "$flags" -- "$cur"))
}
complete -F _outrider outrider
