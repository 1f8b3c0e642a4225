# Makes the database in a folder beside its place, once, and moves it there when it is whole.
if [ ! -s "$PGDATA/PG_VERSION" ]; then
  new="$PGDATA.new"
  rm -rf "$new"
  initdb --pgdata="$new" --username=postgres --encoding=UTF8 --locale=C \
    --auth=scram-sha-256 --pwfile="$POSTGRES_PASSWORD_FILE" --data-checksums
  echo 'CREATE DATABASE anabranch' | postgres --single -D "$new" postgres
  echo 'host all all all scram-sha-256' >> "$new/pg_hba.conf"
  mv "$new" "$PGDATA"
fi
exec postgres -c listen_addresses='*' -c unix_socket_directories=/tmp
